package grader

import "strings"

// symbols are the macros that stand for a character, a word or space. Macros that
// are in none of the three tables vanish and leave their arguments: \text{ab} is
// ab, \boxed{72} is 72.
var symbols = map[string]string{
	"alpha": "α", "beta": "β", "gamma": "γ", "delta": "δ", "epsilon": "ϵ", "varepsilon": "ε", "zeta": "ζ",
	"eta": "η", "theta": "θ", "iota": "ι", "kappa": "κ", "lambda": "λ", "mu": "μ", "nu": "ν", "xi": "ξ",
	"pi": "π", "rho": "ρ", "sigma": "σ", "tau": "τ", "upsilon": "υ", "phi": "ϕ", "varphi": "φ", "chi": "χ",
	"psi": "ψ", "omega": "ω", "Gamma": "Γ", "Delta": "Δ", "Theta": "Θ", "Lambda": "Λ", "Xi": "Ξ", "Pi": "Π",
	"Sigma": "Σ", "Phi": "Φ", "Psi": "Ψ", "Omega": "Ω", "ell": "ℓ", "hbar": "ħ", "partial": "∂", "nabla": "∇",

	"infty": "∞", "cup": "∪", "cap": "∩", "cdot": "·", "times": "×", "div": "÷", "pm": "±", "mp": "∓",
	"ast": "∗", "star": "⋆", "bullet": "∙", "circ": "∘", "oplus": "⊕", "otimes": "⊗", "wedge": "∧", "vee": "∨",
	"le": "≤", "leq": "≤", "ge": "≥", "geq": "≥", "ne": "≠", "neq": "≠", "approx": "≈", "equiv": "≡",
	"sim": "∼", "simeq": "≃", "cong": "≅", "propto": "∝", "in": "∈", "notin": "∉", "subset": "⊂",
	"subseteq": "⊆", "supset": "⊃", "supseteq": "⊇", "emptyset": "∅", "varnothing": "∅", "setminus": "∖",
	"forall": "∀", "exists": "∃", "lnot": "¬", "to": "→", "rightarrow": "→", "Rightarrow": "⇒", "leftarrow": "←",
	"sum": "∑", "prod": "∏", "int": "∫", "angle": "∠", "perp": "⊥", "prime": "'", "square": "□",
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

// refused are the macros that latexText does not resolve: environments, and what
// turns letters into other letters (accents, alphabets, letters of text). They
// leave the whole answer as it stands, so that \mathbb{R} is not R.
var refused = set("begin end hat bar vec dot ddot tilde check acute grave breve not " +
	"mathbf mathit mathsf mathtt mathbb mathcal mathfrak mathscr ss ae oe o l i j aa AA " +
	"b c d r u v k H footnote cite ref url item ' ` ^ \" ~ = . -")
