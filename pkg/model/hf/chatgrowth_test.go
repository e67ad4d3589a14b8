package hf

import (
	"strings"
	"testing"
)

func TestCheckGrowth(t *testing.T) {
	for source, says := range map[string]string{
		"{{ 2 * x }}{{ '-' * 20 }}{{ messages[::-1] }}{{ messages[1:] }}{{ x | tojson(indent=4) }}{{ x.replace(y, '') }}":              "",
		"{{ x | join(', ') }}{{ x | map(attribute='a') | join(', ', attribute=y) }}{{ x | replace('a', 'b') }}{{ messages[-5:-1:2] }}": "",
		"{{ 'x' * n }}":            "multiplication",
		"{{ 'x' * 100000000000 }}": "multiplication",
		"{% if a %}{% for b in [c, {'d': [e * f]}] %}{% endfor %}{% endif %}": "multiplication",
		"{{ x | join(y) }}":                  "join",
		"{{ x.replace('', y) }}":             "replace",
		"{{ x | replace('', y) }}":           "replace",
		"{{ x | indent(width=y) }}":          "indent",
		"{{ x | tojson(indent=9999) }}":      "tojson",
		"{{ '{}{}'.format(x) }}":             "format",
		"{{ x[0:y:2] }}":                     "slice",
		"{{ x[0:99999999999:2] }}":           "slice",
		"{% macro f(a=b*c) %}{% endmacro %}": "multiplication",
	} {
		_, err := NewChatTemplate(source)
		if (err == nil) != (says == "") || err != nil && !strings.Contains(err.Error(), says) {
			t.Errorf("%s: error %v, want %q", source, err, says)
		}
	}
}
