package grader

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// unitWords are the words that the spelling route takes out of an answer: units
// of MathQA's answers and the crumbs of its spelling. The grader that we follow
// fixes the list and its order (words go one after the other); two entries of
// broken encoding are left out. A full stop stands for any character, as in the
// regular expressions that the list was written for.
var unitWords = func() []string {
	words := strings.Split("east,degree,mph,kmph,ft,m sqaure, m east,sq m,deg,mile,q .,monkey,prime,ratio,"+
		"profit of rs,rd,o,gm,p . m,lb,tile,per,dm,lt,gain,ab,way,west,a .,b .,c .,d .,e .,f .,g .,h .,"+
		"t,a,h,no change,men,soldier,pie,bc,excess,st,inches,noon,percent,by,gal,kmh,c,acre,rise,a . m,"+
		"th,π r 2,sq,mark,l,toy,coin,sq . m,gallon,° f,profit,minw,yr,women,feet,am,pm,hr,cu cm,square,"+
		"are,rupee,rounds,cubic,cc,mtr,s,ohm,number,kmph,day,hour,minute,min,second,man,woman,sec,cube,"+
		"mt,sq inch,mp,hectare,more,sec,unit,cu . m,cm 2,rs .,rs,kg,g,month,km,m,cm,mm,apple,liter,"+
		"loss,yard,pure,year,increase,decrease,d,less,Surface,litre,pi sq m,s .,metre,meter,inch", ",")
	for _, w := range words[:len(words):len(words)] {
		words = append(words, w+"s")
	}
	return words
}()

// removeUnits takes every unit word out of s, twice through the list, unless
// nothing would be left. A word counts where no letter, digit or underscore
// touches it.
func removeUnits(s string) string {
	if strings.IndexFunc(s, unicode.IsLetter) < 0 {
		return s
	}
	for range 2 {
		for _, w := range unitWords {
			if t := removeWord(s, w); t != "" {
				s = t
			}
		}
	}
	return s
}

// removeWord is the substitution of (^|\W)word($|\W) by what the groups matched:
// from left to right, and a character that ended one match begins no other.
func removeWord(s, word string) string {
	stem := word
	if i := strings.IndexByte(word, '.'); i >= 0 {
		stem = word[:i]
	}
	if !strings.Contains(s, stem) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); {
		before := 0 // bytes of the character that precedes the word
		end, ok := 0, false
		if i == 0 {
			end, ok = matchWord(s, 0, word)
		}
		if !ok {
			r, n := utf8.DecodeRuneInString(s[i:])
			if before = n; !isWord(r) {
				end, ok = matchWord(s, i+n, word)
			}
		}
		b.WriteString(s[i : i+before])
		i += before
		if !ok {
			continue
		}
		_, n := utf8.DecodeRuneInString(s[end:])
		b.WriteString(s[end : end+n])
		i = end + n
	}
	return b.String()
}

// matchWord matches word at s[i:], followed by the end or by no word character,
// and returns where the word ends.
func matchWord(s string, i int, word string) (end int, ok bool) {
	for j := range len(word) {
		switch {
		case i >= len(s):
			return 0, false
		case word[j] == '.':
			r, n := utf8.DecodeRuneInString(s[i:])
			if r == '\n' {
				return 0, false
			}
			i += n
		case s[i] != word[j]:
			return 0, false
		default:
			i++
		}
	}
	if r, _ := utf8.DecodeRuneInString(s[i:]); i < len(s) && isWord(r) {
		return 0, false
	}
	return i, true
}
