package gsm8k

import (
	"math/big"
	"strings"
	"unicode"

	"grpo/internal/pattern"
)

// LastNumber returns the last number of a completion as a plain decimal. It descends from the
// assignment's parser for GSM8K (parse_gsm8k_response), which takes the last digits. That parser
// reads 500 in "$9{,}500" and 3 in "1e3", so a wrong answer could earn the reward. This one reads
// the whole spelling of the last number or nothing: if the spelling is not one that it knows, or
// if an operator, a letter or another number belongs to it, ok is false.
//
// It reads decimals with thousands separators, signs, currencies, units and percent signs around
// them, exponents ("1e3"), fractions and mixed numbers ("7 3/4", \frac) with a finite decimal that
// is no integer, and the words hundred to trillion. docs/rewards.md lists what it reads and what
// it refuses. The cost is linear.
func LastNumber(text string) (value string, ok bool) {
	last := strings.LastIndexFunc(text, unicode.IsNumber)
	line := strings.LastIndexByte(text[:max(last, 0)], '\n') + 1
	start := max(line, last-maxSpelling)
	text = foldSpelling(text[start:min(last+maxSpelling, len(text))])
	end := strings.LastIndexFunc(text, unicode.IsNumber) + 1
	if end == 0 || text[end-1] < '0' || text[end-1] > '9' {
		return "", false
	}
	head := text[:end]
	m := lastSpelling().FindStringSubmatchIndex(head)
	if start > line && m[0] < maxSpelling/4 { // its start, or what precedes it, may be out of sight
		return "", false
	}
	before, after := blanks.Replace(head[:m[0]]), blanks.Replace(text[end:])
	part := func(name string) string {
		i := 2 * lastSpelling().SubexpIndex(name)
		return head[max(m[i], 0):max(m[i+1], 0)]
	}
	word, sign := part("word"), part("sign1")+part("sign2")
	signed := word+sign != ""
	if len(sign) > 1 || word != "" && sign != "" || signed && operandBefore().MatchString(before) {
		return "", false
	}
	if counted := countedThing().ReplaceAllString(after, " $1$2$3"); !scaleWord().MatchString(counted) {
		after = counted
	}
	scale := 0
	for s := scaleWord().FindStringSubmatch(after); s != nil; s = scaleWord().FindStringSubmatch(after) {
		scale += scales[strings.ToLower(s[1])]
		after = after[len(s[0]):]
	}
	if joinedBefore().MatchString(before) || joinedAfter().MatchString(after) ||
		largerUnit().MatchString(before) && smallerUnit().MatchString(after) ||
		part("over") != "" && wordBefore().MatchString(before) ||
		part("point") != "" && recurring().MatchString(after) {
		return "", false
	}
	if part("over") == "" && part("exponent") == "" && scale == 0 {
		value, ok = normaliseNumber(separators.Replace(part("whole")) + part("point"))
	} else {
		value, ok = exactDecimal(part("mixed")+separators.Replace(part("whole"))+part("point")+part("exponent"),
			part("over"), part("under"), scale)
	}
	if ok && signed && sign != "+" {
		value = "-" + value
	}
	return value, ok
}

// maxSpelling bounds the text before and after the last digit that is looked at, in bytes; a longer
// number is not read.
const maxSpelling = 512

// exactDecimal is (whole + over/under) 10^scale as a decimal. It is false if that has no finite
// decimal, if over/under is an integer (a calculation, which the strict graders refuse, too), and
// for long numbers.
func exactDecimal(whole, over, under string, scale int) (string, bool) {
	const maxLength, maxScale = 64, 64
	if len(whole)+len(over)+len(under) > maxLength || scale > maxScale {
		return "", false
	}
	x := new(big.Rat)
	if whole != "" {
		if _, ok := x.SetString(whole); !ok {
			return "", false
		}
	}
	if over != "" {
		part, ok := new(big.Rat).SetString(over + "/" + under)
		if !ok || part.IsInt() {
			return "", false
		}
		x.Add(x, part)
	}
	power := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(scale)), nil)
	x.Mul(x, new(big.Rat).SetInt(power))
	digits, exact := x.FloatPrec()
	if !exact {
		return "", false
	}
	return x.FloatString(digits), true
}

// foldSpelling maps characters and LaTeX macros that readers see as one thing to one form.
func foldSpelling(s string) string {
	s = latexSpelling.Replace(strings.Map(foldRune, s))
	s = styleMacro().ReplaceAllLiteralString(s, "")
	s = spaceMacro().ReplaceAllLiteralString(s, " ")
	s = mathAfterWord().ReplaceAllString(s, "$1 $2")
	s = mixedFraction().ReplaceAllString(s, "$1 $2")
	s = latexFraction().ReplaceAllString(s, "$1$3/$2$4$5")
	return unitPower().ReplaceAllString(s, "$1")
}

const noBreakSpace = '\u00a0'

func foldRune(r rune) rune {
	switch {
	case strings.ContainsRune("\u2010\u2011\u2012\u2013\u2212\u207b\ufe63", r):
		return '-' // an em dash is never a minus
	case r >= 0xff01 && r <= 0xff5e: // full-width forms of ASCII
		return r - 0xff01 + '!'
	case r == '\u2044' || r == '\u2215':
		return '/'
	case r == '\u2019' || r == '\u02bc':
		return '\''
	case r != ' ' && unicode.Is(unicode.Zs, r):
		return noBreakSpace
	case unicode.Is(unicode.Cf, r): // invisible
		return -1
	}
	return r
}

var (
	latexSpelling = strings.NewReplacer(`{,}`, ",", `\!`, "", `{}`, "", `\,`, "\u00a0", `\;`, "\u00a0", `\:`, "\u00a0",
		`\ `, "\u00a0", "~", "\u00a0", `\$`, "$", `\%`, "%", `\(`, " ", `\)`, " ", `\[`, " ", `\]`, " ",
		`^{\circ}`, "°", `^\circ`, "°", `\degree`, "°",
		"½", `\frac{1}{2}`, "⅓", `\frac{1}{3}`, "⅔", `\frac{2}{3}`,
		"¼", `\frac{1}{4}`, "¾", `\frac{3}{4}`, "⅕", `\frac{1}{5}`, "⅖", `\frac{2}{5}`, "⅗", `\frac{3}{5}`,
		"⅘", `\frac{4}{5}`, "⅙", `\frac{1}{6}`, "⅚", `\frac{5}{6}`, "⅛", `\frac{1}{8}`, "⅜", `\frac{3}{8}`,
		"⅝", `\frac{5}{8}`, "⅞", `\frac{7}{8}`)
	styleMacro = pattern.Of(`\\(?:text|math)[a-z]*\b|\\(?:mbox|left|right)\b`)
	spaceMacro = pattern.Of(`\\(?:boxed|fbox|underline|q?quad|displaystyle|approx|simeq|sim|equiv|leq?|geq?|` +
		`to|implies|therefore|rightarrow|Rightarrow|Longrightarrow|l?dots|cdots)\b`)
	mixedFraction = pattern.Of(`([0-9]) *(\\[dt]?frac)`)
	latexFraction = pattern.Of(`\\[dt]?frac *(?:\{ *(-?[0-9]+) *\} *\{ *([0-9]+) *\}|([0-9])([0-9])([^0-9]|$))`)
	// The first $ is no currency of the word: "is$18$".
	mathAfterWord = pattern.Of(`([a-z]{2})(\$-?[0-9][0-9.,]*\$)`)
	// The exponent of a unit is not the last number: "72 cm^2".
	unitPower = pattern.Of(`([0-9][ \x{a0}]*\{?[ \x{a0}]*(?:[kcdm]?m|in|ft|yd|mi|` +
		`inch(?:es)?|feet|foot|yards?|miles?|(?:kilo|centi|milli)?met(?:er|re)s?|units?)\}?) ?` +
		`(?:\^(?:[23]|\{[23]\})|[²³])`)

	blanks     = strings.NewReplacer("\u00a0", " ", "\t", " ")
	separators = strings.NewReplacer(",", "", "'", "", "_", "", "\u00a0", "")
)

// lastSpelling matches the longest spelling at the end of a text that ends in a digit.
var lastSpelling = pattern.Of(`(?P<word>(?i:negative|minus) +)?(?P<sign1>[+-]?)` +
	`(?:(?:(?:US|CA|AU|NZ|HK|[ACRS])?\p{Sc}|USD|EUR|GBP|INR|CNY|JPY|Rs\.?)[ \x{a0}]?)?(?P<sign2>[+-]?)` +
	`(?:(?:(?P<mixed>[0-9]+) +(?:and +)?)?(?P<over>[0-9]+) ?/ ?(?P<under>[0-9]+)|` +
	`(?P<whole>[0-9]{1,3}(?:[,'_\x{a0}][0-9]{3})+|[0-9]*)(?P<point>(?:\.[0-9]+)?)` +
	`(?P<exponent>(?:[eE][+-]?[0-9]{1,2})?))$`)

// What makes a number a part of something else, before it and after it. Letters of scripts that
// write without spaces do not belong to a number, except their numerals.
const (
	letter   = `\p{Latin}\p{Greek}\p{Cyrillic}一二三四五六七八九十百千万萬億亿兆零〇两点負负第`
	closing  = `\pN)\]}%°`
	operator = `[-+×·⋅∗∙÷/^√∛±∓—―]`
	ordinal  = `(?:half|halve|third|fourth|fifth|sixth|seventh|eighth|ninth|tenth|hundredth|thousandth)`
	amount   = `(?:hundred|thousand|million|billion|trillion|dozen)s?`
	numeral  = `(?:one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve)`

	// alone ends a letter that is no part of a word: not the T of "T-shirts", but the x of "x-y".
	alone = `(?:[^\pL&'-]|[&'-](?:\PL|$)|-\pL(?:\PL|$)|$)`
)

var (
	// operandBefore makes a minus an operator: "10-7", "10 -7", "x-7"; or takes it away: "|-7|".
	operandBefore = pattern.Of(`(?:[` + letter + closing + `.|+-]|[` + closing + `] +)$`)
	joinedBefore  = pattern.Of(`(?:[` + letter + `\pN]|\pN |\pN[.,:']|\.|[` + letter + closing + `]_|` +
		`[` + letter + closing + `.^_][({\[]+ *|\pN *(?i:` + amount + `),? +(?i:and +)?|` +
		// an operator, also before a bracket
		`(?:` + operator + ` *|[` + letter + closing + `]\*+|[` + closing + `] \* ?|[` + letter + closing + `] \*\*? |` +
		`\\[A-Za-z]+ *|\pN ?[xX] |` +
		`\b(?i:plus|times|over|divided by|multiplied by|power of|root of|half of|log|ln|sqrt) +)(?:[({\[]+ *)?)$`)
	joinedAfter = pattern.Of(`^(?:\pM|[a-fi-kn-rt-zA-IKMO-UX-Z\p{Greek}\p{Cyrillic}](?:\PL|$)|` +
		`[十百千万萬億亿兆点]| *(?:` +
		`[\^√π‰]|[xyznkKMBT]` + alone + `|(?i:(?:bn|mn|tn|mill?|lakh|crore|dozen|squared|cubed|factorial|sqrt|` +
		`pi|-?` + ordinal + `)s?|point[ -]+(?:zero|oh|` + numeral + `|[a-z]+teen|[a-z]+ty)|` +
		`(?:[a-z]+ )?and [a-z]+[ -](?:quarter|` + ordinal + `)s?)\b|` +
		`\\(?:pi|sqrt|times|cdot|div|over|frac|overline|infty|pm|log|ln)|\*[A-Za-z]))`)
	recurring = pattern.Of(`^(?:\.\.|…|\\overline|\\dot)`)

	// wordBefore makes a fraction the part of a mixed number.
	wordBefore = pattern.Of(`\b(?i:` + numeral + `) +(?:and +)?$`)

	// Both make a quantity in two units: "5 feet 10 inches", "$5 and 30 cents".
	largerUnit = pattern.Of(`(?:\p{Sc} ?[0-9][0-9.,]*|\pN *(?i:dollars?|euros?|pounds?|lbs?|` +
		`years?|months?|weeks?|days?|hours?|hrs?|h|minutes?|mins?|yards?|feet|foot|ft|'|miles?|gallons?)) *,? *(?i:and +)?$`)
	smallerUnit = pattern.Of(`^ *(?i:cents?|pence|months?|weeks?|days?|hours?|minutes?|mins?|seconds?|secs?|` +
		`feet|foot|ft|inch(?:es)?|in|ounces?|oz|"|yards?|quarts?|pints?)(?:\PL|$)`)

	// countedThing is a thing with an ordinal or a magnitude in its name, which is no part of the number: "18 third
	// graders", "18 half-gallon jugs", "18 hundred-dollar bills"; but "18 half-gallons" are 9 gallons.
	countedThing = pattern.Of(`^ +(?i:` + ordinal + `(?:[- ](grade(?:rs?)?\b)|-([a-z]*[a-rt-z] +[a-z]{2,}[a-rt-z]s\b))|` +
		amount + `-((?:dollar|euro|pound|rupee|peso|yuan|yen) +[a-z]+s\b))`)

	scaleWord = pattern.Of(`^[ {-]*(?i:(hundred|thousand|million|billion|trillion))(?i:s?)\b`)
	scales    = map[string]int{"hundred": 2, "thousand": 3, "million": 6, "billion": 9, "trillion": 12}
)
