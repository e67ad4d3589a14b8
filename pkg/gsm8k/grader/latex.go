package grader

import (
	"strings"
	"unicode/utf8"
)

// maxNesting limits braces in LaTeX and brackets in expressions.
const maxNesting = 64

// latexText converts LaTeX to the plain text that pylatexenc's latex2text writes for the macros of
// mathematics: symbols become their characters or words, \frac{a}{b} becomes a/b and \sqrt{a}
// sqrt(a), without brackets around a and b and without the index of a root; other macros vanish and
// leave their arguments. It is false for unsupported LaTeX. The cost is linear; nesting is limited.
func latexText(s string) (text string, ok bool) {
	ok = accepted(func() {
		// The space separates a mixed number: 1\frac{1}{2} is "1 1/2".
		s = strings.NewReplacer(`\tfrac`, ` \frac`, `\dfrac`, ` \frac`, `\frac`, ` \frac`).Replace(s)
		r := latexReader{s: s}
		r.run(0)
		text = trim(plainSymbols.Replace(string(r.out)))
	})
	return text, ok
}

// plainSymbols are the symbols that the value route knows as words and operators,
// whether they were macros or characters.
var plainSymbols = strings.NewReplacer("√", "sqrt", "π", "pi", "∞", "inf", "∪", "U", "·", "*", "×", "*")

type latexReader struct {
	s   string
	i   int
	out []byte
}

func (r *latexReader) write(s string) { r.out = append(r.out, s...) }

// run converts text up to the closing brace of its group, or to the end.
func (r *latexReader) run(depth int) {
	for r.i < len(r.s) {
		if r.s[r.i] != '}' {
			r.one(depth)
			continue
		}
		if r.i++; depth > 0 {
			return
		} // otherwise drop the unmatched brace
	}
}

// one converts one unit: a macro with its arguments, a group, or a character.
func (r *latexReader) one(depth int) {
	if depth > maxNesting {
		panic(refusal{})
	}
	switch r.s[r.i] {
	case '\\':
		r.macro(depth)
	case '{':
		r.i++
		r.run(depth + 1)
	case '~', '&':
		r.write(" ")
		r.i++
	default:
		_, n := utf8.DecodeRuneInString(r.s[r.i:])
		r.write(r.s[r.i : r.i+n])
		r.i += n
	}
}

// argument converts the argument that follows a macro.
func (r *latexReader) argument(depth int) {
	r.skipSpace()
	for depth == 0 && strings.HasPrefix(r.s[r.i:], "}") {
		r.i++ // an unmatched brace
	}
	if r.i >= len(r.s) || r.s[r.i] == '}' {
		panic(refusal{})
	}
	r.one(depth + 1)
}

func (r *latexReader) macro(depth int) {
	switch name := r.macroName(); {
	case name == "frac":
		r.argument(depth)
		r.write("/")
		r.argument(depth)
	case name == "sqrt":
		if strings.HasPrefix(r.s[r.i:], "[") { // the index
			n := strings.IndexByte(r.s[r.i:], ']')
			if n < 0 {
				panic(refusal{})
			}
			r.i += n + 1
		}
		r.write("√(")
		r.argument(depth)
		r.write(")")
	case refused[name]:
		panic(refusal{})
	case discarding[name]:
		kept := len(r.out)
		r.argument(depth)
		r.out = r.out[:kept]
	default:
		r.write(symbols[name])
	}
}

// macroName reads a macro's name: letters, with the white space after them, or
// one other character. The name of a backslash at the end is "".
func (r *latexReader) macroName() string {
	r.i++
	start := r.i
	for r.i < len(r.s) && r.s[r.i]|0x20 >= 'a' && r.s[r.i]|0x20 <= 'z' {
		r.i++
	}
	if r.i > start {
		defer r.skipSpace()
	} else {
		_, n := utf8.DecodeRuneInString(r.s[r.i:])
		r.i += n
	}
	return r.s[start:r.i]
}

func (r *latexReader) skipSpace() {
	for r.i < len(r.s) && strings.IndexByte(" \t\n\r", r.s[r.i]) >= 0 {
		r.i++
	}
}

// symbols are the macros that mean a character, a word or space. Macros in none of
// the three tables vanish and leave their arguments: \text{ab} is ab, \boxed{72} is
// 72.
var symbols = map[string]string{
	"alpha": "α", "beta": "β", "gamma": "γ", "delta": "δ", "epsilon": "ϵ", "varepsilon": "ε", "zeta": "ζ",
	"eta": "η", "theta": "θ", "iota": "ι", "kappa": "κ", "lambda": "λ", "mu": "μ", "nu": "ν", "xi": "ξ",
	"pi": "π", "rho": "ρ", "sigma": "σ", "tau": "τ", "upsilon": "υ", "phi": "ϕ", "varphi": "φ", "chi": "χ",
	"psi": "ψ", "omega": "ω", "Gamma": "Γ", "Delta": "Δ", "Theta": "Θ", "Lambda": "Λ", "Xi": "Ξ", "Pi": "Π",
	"Sigma": "Σ", "Phi": "Φ", "Psi": "Ψ", "Omega": "Ω", "ell": "ℓ", "hbar": "ħ", "partial": "∂", "nabla": "∇",

	"infty": "∞", "cup": "∪", "cap": "∩", "cdot": "·", "times": "×", "div": "÷", "pm": "±", "mp": "∓",
	"ast": "∗", "star": "⋆", "bullet": "∙", "circ": "∘", "oplus": "⊕", "otimes": "⊗", "wedge": "∧",
	"vee": "∨",
	"le":  "≤", "leq": "≤", "ge": "≥", "geq": "≥", "ne": "≠", "neq": "≠", "approx": "≈", "equiv": "≡",
	"sim": "∼", "simeq": "≃", "cong": "≅", "propto": "∝", "in": "∈", "notin": "∉", "subset": "⊂",
	"subseteq": "⊆", "supset": "⊃", "supseteq": "⊇", "emptyset": "∅", "varnothing": "∅", "setminus": "∖",
	"forall": "∀", "exists": "∃", "lnot": "¬", "to": "→", "rightarrow": "→", "Rightarrow": "⇒",
	"leftarrow": "←",
	"sum":       "∑", "prod": "∏", "int": "∫", "angle": "∠", "perp": "⊥", "prime": "'", "square": "□",
	"ldots": "…", "dots": "…", "cdots": "⋯", "backslash": `\`, "mid": "|", "vert": "|", "lvert": "|", "rvert": "|",
	"Vert": "‖", "lfloor": "⌊", "rfloor": "⌋", "lceil": "⌈", "rceil": "⌉", "langle": "⟨", "rangle": "⟩",
	"lbrace": "{", "rbrace": "}", "textdegree": "°",

	"sin": "sin", "cos": "cos", "tan": "tan", "arcsin": "arcsin", "arccos": "arccos", "arctan": "arctan",
	"sinh": "sinh", "cosh": "cosh", "tanh": "tanh", "log": "log", "ln": "ln", "exp": "exp", "lim": "lim",
	"max": "max", "min": "min", "sup": "sup", "inf": "inf",

	"quad": "  ", "qquad": "    ", ",": " ", ";": " ", ":": " ", " ": " ", "\n": " ", "!": "", `\`: "\n",
	"(": "", ")": "", "[": "\n", "]": "\n", "|": "",
	"%": "%", "$": "$", "#": "#", "&": "&", "_": "_", "{": "{", "}": "}",
}

func set(words string) map[string]bool {
	m := map[string]bool{}
	for _, w := range strings.Fields(words) {
		m[w] = true
	}
	return m
}

// discarding are the macros that vanish together with their argument.
var discarding = set("mbox textsf texttt hspace vspace color label ensuremath")

// refused are the macros that latexText does not convert: environments, and those that change
// letters (accents, alphabets, text letters). Such an answer keeps its source text, so \mathbb{R}
// is not R.
var refused = set("begin end hat bar vec dot ddot tilde check acute grave breve not " +
	"mathbf mathit mathsf mathtt mathbb mathcal mathfrak mathscr ss ae oe o l i j aa AA " +
	"b c d r u v k H footnote cite ref url item ' ` ^ \" ~ = . -")
