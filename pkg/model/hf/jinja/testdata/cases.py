"""Renders templates with jinja2 as transformers sets it up, for every builtin filter, test, method and
operator. Writes a list of [template, text] to standard output, first statements that set the variables; text is null where jinja2 has an error or
prints an address. Of the errors of generated templates it keeps one in six.

    python3 cases.py | gzip -9n >cases.json.gz     (jinja2 3.1.6, transformers 5.24)
"""
import copy  # a filter of jinja2 changes lists
import datetime
import json
import re
import sys
import warnings

import jinja2.filters
import jinja2.tests
from transformers.utils.chat_template_utils import _compile_jinja_template as compile_template

warnings.filterwarnings("ignore")
DATE = datetime.datetime(2024, 7, 26)
TOOL = {"type": "function", "function": {"name": "get_time", "description": "The time <b> of \"é\"", "parameters": {
    "type": "object", "properties": {"zone": {"type": "string", "enum": ["utc", "cet"]}}, "required": ["zone"]}}}
VARIABLES = {
    "messages": [
        {"role": "system", "content": "  Be brief.\n"},
        {"role": "user", "content": "What is 1 + 1?\n"},
        {"role": "assistant", "content": "<think>\neasy\n</think>\n\n2 "},
        {"role": "user", "content": "Grüße & <b>\"1\"</b>, it's 5 o'clock"},
    ],
    "tools": None, "documents": None, "add_generation_prompt": True, "bos_token": "<s>", "eos_token": "</s>",
    "tool": TOOL, "nested": {"a": {"b": [1, {"c": None}]}, "items": 3, "x y": True},
    "rows": [{"n": "b", "v": 2, "t": {"k": "y"}}, {"n": "A", "v": 1, "t": {"k": "x"}}, {"n": "a", "v": 1.5, "t": {"k": ""}}],
}
# The same as statements of a template, for a reader without them.
PREAMBLE = "".join(f"{{% set {name} = {value!r} %}}\n" for name, value in VARIABLES.items())

VALUES = ["0", "1", "7", "-3", "2.0", "-1.5", "1e20", "true", "none", "''", "'abc'", "'Ünï\\n'", "[]", "[3,1,2]", "(1,)",
          "{}", "{'b':1,'a':[1,none]}", "u", "range(3)"]
MORE = ["false", "1e16", "1e15", "0.1", "1e-5", "0.0001", "123456789012345678", "1.0e22", "-0.0", "'12'", "' 3.5 '", "'0x1f'",
        "'hELLO wORLD'", "\"it's\"", "'a\"b'", "'it\\'s \"x\"'", "'a,b,,c'", "'  x y  '", "'ßŉΑΣ'", "'a\\tb\\u2028c\\x7f'", "'<a&\"\\'>'",
        "['b','A','a']", "[1,1.0,true,'1']", "[[1,2],[3]]", "()", "(1,2)", "((1,2),('a',))", "{1:2,none:'x',true:3,2.5:4}",
        "{'z':{'y':[true,none,1.5]}}", "rows", "[u]", "'a\\nb\\r\\nc\\n\\nd'", "namespace(a=1)", "['a','b']",
        "{'a':'x'}", "['2','10']", "[none]", "[0,1,none,'']"]
ARGUMENTS = ["", "1", "-1", "0", "'a'", "'l'", "', '", "none", "true", "2.5", "[1]", "('a','h')", "u", "1,2", "'a','b'", "'a','b',1",
             "'a',1", "0,2", "'x',-2,-1", "'=',1", "10,'*'", "none,1", "1,2,3", "'b','c',1,2", "'{}'", "x=1", "maxsplit=1", "sep='a'",
             "' ',maxsplit=1", "keepends=true"]
FILTER_ARGUMENTS = {
    "attr": ["'x'", "'upper'", "'a'"], "batch": ["2", "2,'x'"], "center": ["9"], "default": ["'x'", "'x',true", "default_value='x',boolean=true"],
    "d": ["1", "'x',boolean=1"], "dictsort": ["", "true", "false,'value'", "by='value',reverse=true", "by='x'", "reverse=true"],
    "first": [""], "format": ["1", "'a'", "1,2", "a=1"],
    "groupby": ["'v'", "attribute='t.k'"], "indent": ["", "2", "2,true", "width=2,first=true,blank=true", "'> '", "0", "-1", "1.5", "1,2,3,4"],
    "int": ["", "5", "0,16", "base=0", "default=-1", "'x'", "0,2"], "float": ["", "1.5", "default='x'"],
    "items": [""], "join": ["", "', '", "', ','n'", "'',attribute='v'", "d='-'", "1", "none"], "map": [
        "'upper'", "'string'", "attribute='n'", "attribute='t.k'", "attribute='q',default='z'", "'int'", "'default','x'", "'join','-'", "'length'",
        "'nosuch'", "", "attribute=0", "'tojson'", "'replace','a','b'", "'round',1", "'trim'"],
    "max": ["", "true", "attribute='v'", "case_sensitive=true"], "min": ["", "true", "attribute='v'"],
    "reject": ["", "'odd'", "'equalto',1", "'none'", "'in',[1,'a']"], "select": ["", "'odd'", "'equalto',1", "'string'", "'nosuch'", "'defined'"],
    "rejectattr": ["'v'", "'v','equalto',1", "'t.k'"], "selectattr": [
        "'v'", "'v','equalto',1", "'role','equalto','user'", "'role','==','user'", "'n','in','ab'", "'q','defined'", "'v','gt',1"],
    "replace": ["'a','b'", "'a','b',1", "old='a',new='b'", "'','-'", "'l','L',count=1", "1,2", "'a'", "'a','b',-1", "'a','b',none"],
    "round": ["", "1", "0,'floor'", "1,'ceil'", "method='floor'", "-1", "'x'", "precision=2"], "slice": ["2", "2,'x'"],
    "sort": ["", "true", "case_sensitive=true", "attribute='v'", "attribute='v,n'", "attribute='n'", "reverse=true,attribute='t.k'"],
    "sum": ["", "'v'", "attribute='v'", "start=10", "'v',1"], "tojson": [
        "", "indent=2", "4", "true", "indent='\\t'", "ensure_ascii=true", "separators=(',',':')", "separators=[', ',': ']", "sort_keys=true",
        "indent=none", "indent=0", "indent=2,separators=(',',': ')", "none,2", "false,none,(',',':')", "indent=1,sort_keys=true,ensure_ascii=true", "x=1"],
    "trim": ["", "'a'", "chars='x '", "none", "1"], "truncate": ["5", "5,true"], "unique": ["", "true", "attribute='v'"],
    "urlencode": [""], "wordwrap": ["5"], "xmlattr": [""],
}
TEST_ARGUMENTS = {"divisibleby": ["1", "2", "0", "'a'"], "sameas": ["none", "true", "1", "1.0", "[]"], "in": ["'abc'", "[1,7,'abc']", "{'abc':1}", "none", "u"]}
for name in ["==", "eq", "equalto", "!=", "ne", ">", "gt", "greaterthan", ">=", "ge", "<", "lt", "lessthan", "<=", "le"]:
    TEST_ARGUMENTS[name] = ["1", "'abc'", "[3,1,2]", "none", "2.0", "u"]

cases = []
for v in VALUES + MORE:
    cases += [f"{{{{ {v} }}}}", f"{{{{ [{v}] }}}}", f"{{{{ ({v})|string }}}}", f"{{{{ {{'k': {v}}} }}}}", f"{{{{ -{v} }}}}|{{{{ +{v} }}}}",
              f"{{{{ 'y' if {v} else 'n' }}}}{{{{ not {v} }}}}", f"{{% for x in {v} %}}{{{{ loop.index }}}}{{{{ x }}}},{{% else %}}none{{% endfor %}}",
              f"{{{{ {v}~'|'~{v} }}}}", f"{{% set y = {v} %}}{{{{ y }}}}"]
    for a in ["0", "1", "-1", "'a'", "none", "1.0", "true", ":1", "::-1", "-2:", "1:2", ":-1", "::2", "-9:9", "5:", "2:0:-1", "::0", "u", "'b':", "none:1", "'upper'"]:
        cases.append(f"{{{{ ({v})[{a}] }}}}")
    for a in ["a", "b", "0", "real", "x.y", "items", "role", "keys", "_x", "__class__"]:
        cases.append(f"{{{{ ({v}).{a} }}}}")
OPERATORS = ["+", "-", "*", "/", "//", "%", "**", "==", "!=", "<", "<=", ">", ">=", "in", "not in", "and", "or"]
for op in OPERATORS:
    for v in VALUES:
        for w in VALUES:
            if op != "**" or "1e20" not in (v, w):
                cases.append(f"{{{{ {v} {op} {w} }}}}")
for op in OPERATORS[:7] + OPERATORS[9:10]:
    for v in ["7", "-7", "2.5", "-2.5", "true", "9007199254740993", "'%s'", "0.1"]:
        for w in ["3", "-3", "0.5", "-0.75", "true", "9007199254740992.0", "9007199254740993", "0.2"]:
            if op != "**" or "9007" not in v + w:
                cases.append(f"{{{{ {v} {op} {w} }}}}")
METHODS = sorted({m for t in (str, list, dict, int, float, tuple, range) for m in dir(t) if not m.startswith("_")})
RECEIVERS = {"'hello wörld'": str, "' aXb,a=b=c\\tq '": str, "'ÀÉ ß 12'": str, "'{} {0} {a:>4}'": str, "''": str, "[3,1,'a',3]": list, "(1,'a',1)": tuple,
             "{'a':1,'b':none}": dict, "7": int, "2.5": float, "range(4)": range}
for v, t in RECEIVERS.items():
    for m in METHODS:
        if hasattr(t, m):
            cases += [f"{{{{ ({v}).{m}({a}) }}}}" for a in ARGUMENTS] + [f"{{{{ ({v}).{m}({a})|list }}}}" for a in ["", "'a'"]]
        else:
            cases.append(f"{{{{ ({v}).{m}() }}}}")
for name in sorted(jinja2.filters.FILTERS):
    for a in FILTER_ARGUMENTS.get(name, ["", "1", "'a'"]):
        for v in VALUES + MORE:
            call = f"({v})|{name}" + (f"({a})" if a else "")
            cases.append(f"{{{{ {call} }}}}")
            if name in ("map", "select", "reject", "selectattr", "rejectattr", "items", "reverse", "unique"):
                cases.append(f"{{{{ {call}|list }}}}")
for name in sorted(jinja2.tests.TESTS):
    for a in TEST_ARGUMENTS.get(name, [""]):
        for v in VALUES + MORE[:14]:
            if name.isidentifier():
                cases.append(f"{{{{ ({v}) is {name} {a} }}}}" if a else f"{{{{ ({v}) is not {name} }}}}")
            cases.append(f"{{{{ [{v}]|select('{name}'" + (f",{a}" if a else "") + ")|list }}")
for f, a in [("%s", "u"), ("%s", "(1,2)"), ("%s %s", "(1,'a')"), ("%s", "[1]"), ("%d", "7"), ("%d", "7.9"), ("%d", "'a'"), ("%5d|%-5d|%05d", "(1,2,3)"),
             ("%.2f", "1.005"), ("%8.3f|%-8.1f", "(1.5,2)"), ("%r", "'a'"), ("%%", "()"), ("%x", "255"), ("%5s|%-5s|", "('é','b')"), ("%.2s", "'héllo'"), ("%+d", "1"),
             ("%(a)s", "{'a':1}"), ("%e", "1.0"), ("%g", "1.0"), ("%s", "()"), ("%s", "(1,)"), ("%s", "none"), ("%s", "true"), ("%d", "true"), ("%i", "3"), ("%c", "65"),
             ("a", "1"), ("a", "{}"), ("a", "[]"), ("%*d", "(5,1)"), ("%", "1"), ("%q", "1"), ("%s", "{'a':1}"), ("% d", "4"), ("%#x", "255"), ("%.3d", "5"), ("%f", "1e300")]:
    cases += [f"{{{{ '{f}' % {a} }}}}", f"{{{{ '{f}'|format{a if a[0] == '(' else '(' + a + ')'} }}}}"]
for f, a in [("{}", "1"), ("{}{}", "1,'a'"), ("{1}{0}", "1,2"), ("{a}", "a=1"), ("{{}}", ""), ("{0.x}", "1"), ("{0[a]}", "{'a':1}"), ("{:>4}", "1"), ("{:.2f}", "1.5"),
             ("{!r}", "'a'"), ("{}", ""), ("{", "1"), ("}", "1"), ("{}{0}", "1"), ("{:d}", "1.5"), ("{0}", "none"), ("{:,}", "1000"), ("{a}{b}", "a=1,b=[1]")]:
    cases.append(f"{{{{ '{f}'.format({a}) }}}}")
cases += [f"{{{{ '{s}' }}}}" for s in [r"\u2022 x", r"\x41", r"\101", r"\U0001F600", r"\q", r"\\n", r"a\
b", r"\N{BULLET}", r"\ud83d", r"\a\b\f\v", r"é\n", "a\nb", "{{", "}}", "%}", "#}", r"\x4", r"\'"]]
cases += [f"{{{{ strftime_now('{f}') }}}}" for f in
          ["%d %B %Y", "%Y-%m-%d", "%b %d", "%A %a %p %I %y %j", "%H:%M:%S", "%%", "x", "%e", "%-d", "%Q", "%", "%f", "%c", "%w%U%Z%z%x%X%G%V%u%D%F%T%R%n%t%h%k%l%s"]]
cases += ["{{ %s }}" % e for e in """
1 if false
1 if true else 2
'a' ~ 1 + 2 ~ 'b'
2 ** 3 ** 2
-2 ** 2
2 ** -1
-1|abs
-1.5|abs|string
1 < 2 < 3
3 > 2 > 2
1 == 1.0 == true
not 1 == 2
not not 1
1 in [1] == true
'a' 'b'
1_000
0x1F
0b11
0o17
01
1.5e3
1e3
1.
.5
"a" if u is defined else "b"
u.x
u['x']
u + 1
u.x.y
nested.a.b[1].c
nested['x y']
nested.items
nested['items']
nested.get('q')
nested.get('q', 5)
nested.a.b.0
nested.a.b.1.c
messages[0].role
messages[0]['role']
messages[-1].content
messages[1:][0].role
messages[::-1][0].content
messages|length
messages|selectattr('role','equalto','user')|map(attribute='content')|join('|')
messages|map(attribute='role')|list
messages|first
(messages|last).role
messages[99]
messages[99].x
messages.x
raise_exception('no')
range(3)
range(1,4)|list
range(4,0,-2)|list
range(0)
range(1,2,0)
range('a')
range(1000000)
range(3)[1]
range(5)[1:3]
range(3)|length
range(3) == range(3)
range(3) is iterable
range(5)|first
range(5)|last
range(0,10,3)|join
3 in range(5)
dict(a=1)
dict(a=1)|tojson
dict([('a',1)])
dict({'a':1},b=2)
namespace(a=1).a
namespace({'a':1}).a
namespace().q is defined
{'a':1}.items()
{'a':1}.keys()
{'a':1}.values()
{'a':1}.items()|list
{'a':1,'b':2}.keys()|list|join
'a' in {'a':1}.keys()
{'a':1}.keys()|length
{'a':1}.items()|tojson
{'a':{'b':1}}
{'a':{'b':1}}|tojson
{'a':1,'a':2}
{[1]:2}
{1:1,1.0:2,true:3}
{'a':1} == {'a':1.0}
[1,[2]] == [1,[2.0]]
(1,2) == [1,2]
[1,2] < [1,3]
(1,'a') < (1,'b')
'a' < 'b'
'ab' < 'b'
1,2
()
(1)
(1,)
[1,]
{'a':1,}
[x for x in y]
'%s' % strftime_now('%Y')
'a=b=c'.split('=', 1)[1]
'a=b=c'.split('=', maxsplit=1)[1]
['a']|map('upper')|first
'abc'|last
'héllo'.find('l')
'abc'.startswith(('x','a'))
'abc'[1]
'héllo'[1:3]
'😀é'[0]
'😀é'|length
'😀é'[::-1]
'<a>'|escape
'<a>'|e ~ '<'
'<a>'|safe
('<a>'|safe) ~ '<'
('<a>'|e) + '<'
'<' + ('<a>'|safe)
('<a>'|safe)|upper
('<a>'|safe)|length
('<'|safe) == '<'
('<'|e)|e
'%s'|safe % '<'
['<'|e]
tool|tojson|safe
tool|tojson|e
(tool|tojson)[:5]
none|default('x')
u|default('x')
u|default('x')|upper
''|default('x', true)
''|default('x', boolean=true)
x.y.z is defined
(u|default({})).x
(u|default({})).x is defined
u is defined and u
u == none
u == u
none == false
1 is number
true is number
true is integer
1.0 is float
'a' is string
{} is mapping
[] is sequence
'a' is sequence
[] is iterable
1 is iterable
u is none
none is none
none is not none
true is true
1 is true
1 is eq 1
1 is eq(1)
1 is sameas 1
'a' is in 'abc'
'a' is in ['a']
4 is divisibleby 2
4 is divisibleby(3)
4 is even
3 is odd
1 is nosuch
'a' is filter
'upper' is filter
'odd' is test
'a'|nosuch
'abc'.nosuch()
'abc'.nosuch
[1].append(2)
[1].pop()
{}.update({})
[1,2].index(2)
[1,2,1].count(1)
lipsum()
cycler(1,2).next()
joiner()()
self
loop
loop.index
caller()
super()
varargs
f(*[1])
dict(**{'a':1})
range(*[1,3])|list
'a'.replace('a','b').upper()
'a'.join(['x','y'])
','.join('abc')
','.join([1])
','.join({'a':1,'b':2})
','.join(['a','b']|map('upper'))
'x'.join(messages|map(attribute='role'))
true + true
true ~ none
1 ~ 2.0
1 + 1.0
7 / 2
7 // 2
-7 // 2
7 % -3
7.5 // 2
-7.5 % 2
1 / 0
1 % 0
1 // 0.0
1e308 * 10
-1e308 * 10
(1e308 * 10) - (1e308 * 10)
9223372036854775807
9223372036854775807 + 1
9223372036854775808
99999999999999999999
2 ** 62
2 ** 64
2 ** 0.5
0 ** 0
0 ** -1
(-8) ** 0.5
2.5|round
3.5|round
2.675|round(2)
2.5|round(0,'ceil')
7|round
1234|round(-2)
42.55|round|int
'5'|int + 1
'5.7'|int
'abc'|int(9)
none|int
true|int
1e400|int
'1_000'|int
' 7 '|int
'inf'|float
'nan'|float
'1e3'|float
3.7|int
-3.7|int
['b','A','c']|sort
['b','A','c']|sort(case_sensitive=true)
['b','A','c']|sort|join
[3,1,2]|sort(reverse=true)
[1,'a']|sort
{'b':1,'a':2}|dictsort
{'b':1,'a':2}|sort
[[2],[1]]|sort
rows|sum(attribute='v')
[1,2.5]|sum
[[1],[2]]|sum(start=[])
['a']|sum
rows|map(attribute='n')|unique|list
rows|groupby('v')
[1,2,3]|max
[]|max
rows|max(attribute='v')
['b','A']|min
'a b'|title
"they're x-y (z)"|title
"they're x-y (z)".title()
'x'|center(5) ~ '|'
'a\\nb'|indent
'a\\n\\nb\\n'|indent(2)
'abc'|reverse
[1,2]|reverse|list
'a-b'|replace('-','+')
'aaa'|replace('a','b',2)
1|string ~ 2
[1,none]|tojson
1.0|tojson
1e20|tojson
'é\\u2028\\x01"\\\\/'|tojson
'é😀'|tojson(ensure_ascii=true)
{1:2,none:3,true:4,1.5:5}|tojson
{(1,2):3}|tojson
u|tojson
[u]|tojson
{}|tojson(indent=2)
[[],{}]|tojson(indent=2)
{'a':[1,{'b':2}]}|tojson(indent=2)
{'a':[1]}|tojson(indent=-1)
(1,2)|tojson
range(2)|tojson
[1,2]|map('string')|tojson
'a'|attr('upper')
x if x else y
(1,2)[0]
{'a':1}['a']
{'a':1}.a
{1:2}[1]
{1:2}[1.0]
{'1':2}.1
[1,2].0
[[1,2],[3,4]][1][0]
"a\\nb".splitlines()
"a\\nb"|length
"%d items" % 3
'a' if true else 'b' if false else 'c'
('a' if false else 'b') ~ 'c'
true and 'x' or 'y'
0 or none
[] and 1
none or u or 'z'
1 and
1 +
(1
[1
{1
'a
a b
{a}
1 2
a..b
a.
|upper
a|
a is
is
a[
a[]
a[1:2:3:4]
a[1,2]
a[1:2,3]
not
if
for
x = 1
(x = 1)
f(a=1,b)
f(a=1,a=2)
range(3,)
1 not in [1]
not 1 in [1]
1 is not in [1]
'a' is not string
'a' is string is string
a and not b
- 1
+-1
--1
+'a'
-true
1 .real
'a'.upper
'a'.upper is callable
range is callable
namespace is callable
raise_exception is callable
true.real
loop is defined
none.x is defined
none['x'] is defined
1['x'] is defined
1[0]
none[0]
true[0]
tool.function.name
tool['function']['parameters']['properties'].items()|first|first
tool.function.parameters.required|join(', ')
tool|string
tool.function.description
tool is mapping
messages[0] is mapping and messages is not mapping
messages[0]|items|list
messages[0].content|trim ~ '|'
messages[2].content.split('</think>')[-1].lstrip('\\n')
messages[2].content.split('</think>')[0].rstrip('\\n').split('<think>')[-1].lstrip('\\n')
messages[2]['content'].partition('</think>')[2]
messages[2]['content'].rpartition('</think>')
'tool_calls' in messages[2]
messages[2].tool_calls
messages[2].tool_calls is defined
messages[2].tool_calls is defined and messages[2].tool_calls is not none
messages[0]['role'] == 'system'
messages[(messages|length) - 1].role
(messages|length - 1) % 2
messages|rejectattr('role','equalto','system')|list|length
messages|selectattr('role','in',['user','system'])|list|length
messages|map(attribute='content')|map('length')|sum
messages|map('attr','role')|list
[1,2,3]|select('gt',1)|list
[1,2,3]|reject('odd')|join
[1,2]|list + [3]
'ab'|list
'a,b'.split(',')|map('trim')|list
[' a ','b ']|map('trim')|join(',')
'x'*3
3*'x'
[0]*3
'x'*-1
'x'*1.5
{'a':1}|length
{'a':1}|list
{'a':1}|items|list
u|items|list
[1]|items
{'a':1}|join
{'a':1}|first
'x'|first
''|first
[]|first
[]|last
[]|first is defined
1|first
u|first
u|last
u|length
u|join
u|list
u|upper
u|int
u|string
u|trim
u|replace('a','b')
u|sort
none|length
none|upper
none|string
none|trim
none|list
none|join
1|upper
1.0|upper
true|upper
true|lower
[1]|upper
1|trim
[1]|trim
1|length
1|join
1|list
{'a':1}['items'] is defined
{'a':1}.items is defined
'y' if {'a':1}['keys'] else 'n'
{'a':1}['keys']['type']
{'a':1}['get'] == 'string'
{'a':1}['keys'] is mapping
{'a':1}['keys'] is iterable
{'a':1}['keys']|default('x')
{'a':1}.items ~ ''
not {'a':1}.items
{'a':1}['__class__'] is defined
rows|selectattr('items')|list|length
rows|map(attribute='keys')|list|length
[{'keys':1},{}]|selectattr('keys','defined')|list|length
({'a':1}|items).type is defined
({'a':1}|items)['type']
(rows|groupby('n'))[0].list|length
(rows|groupby('n'))[0].grouper
(rows|groupby('n'))[0][0]
(rows|groupby('n'))[0].x is defined
rows|groupby('n')|map(attribute='grouper')|list
rows|groupby('t.k')|map('first')|join(',')
rows|groupby('n')|map(attribute='list')|map('length')|list
messages|map(attribute='content')|map('length')|sum
['aB','AB','c']|unique|list
['aB','AB','c']|unique(case_sensitive=true)|join
('<a&"\'>'|e)|e ~ '<'
1 is sameas true
none is not sameas none
caller is defined
caller()
1.005|round(2)
'x'|float(3.5)
{'a':'b'}[['a',none]] is defined
{'a':'b'}[['a',none]]
{'a':'b'}[{}]
{'a':'b'}[u] is defined
{'a':'b'}.get(['a'])
{'a':'b'}.get(u, 3)
['a'] in {'a':'b'}
u in {'a':'b'}
""".strip().split("\n")]
STATEMENTS = r"""
a
a\n
a\n\n
a\r\nb\r
{{ 1 }}\n
{{ 1 }}\n\n
 {{- 1 -}} x
 {{+ 1 }}
{% if true %}\n  a\n  {% endif %}\nb
  {% if true %}x{% endif %}
  {%+ if true %}x{% endif %}
{% if true +%}\nx{% endif %}
{% if true -%}\n  x  {%- endif %}  y
a  {# c #}\nb
a\n  {# c #}\nb
a\n  {#- c -#}\n  b
a\n  {#+ c +#}\nb
{# a {{ b }} {% c #}x
{# open
{% raw %}{{ a }}{% endraw %}
a\n  {% raw %}\n {{ a }} {% endraw %}\nb
{%- raw -%} {{ a }} {%- endraw -%} b
{% raw %}x
{% if %}x{% endif %}
{% if 1 %}x
{% endif %}
{% else %}
{% nosuch %}
{{ }}
{% %}
{{
{%
{% if a %}1{% elif 2 %}2{% else %}3{% endif %}
{% if a %}1{% elif b %}2{% else %}3{% endif %}
{% if a %}1{% else if b %}2{% endif %}
{% if 1, %}x{% endif %}
{% for i in [1,2,3] %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }};{% endfor %}
{% for i in [1,2,3] %}{{ loop.previtem }}{{ loop.nextitem }}{{ loop.depth }}{{ loop.depth0 }};{% endfor %}
{% for i in [1,2,3] %}{{ loop.previtem is defined }}{{ loop.cycle('a','b') }};{% endfor %}
{% for i in [1,1,2] %}{{ loop.changed(i) }};{% endfor %}
{% for i in [1,2] %}{{ loop.nosuch }}{% endfor %}
{% for i in [1,2] %}{{ loop }}{% endfor %}
{% for i in [1] %}{{ loop is defined }}{% endfor %}{{ loop is defined }}{{ i is defined }}
{% for i in [1,2,3,4] if i is even %}{{ i }}{{ loop.length }}{{ loop.last }}{% endfor %}
{% for i in [1,2] if loop.index %}{{ i }}{% endfor %}
{% for a, b in [(1,2),[3,4]] %}{{ a }}{{ b }};{% endfor %}
{% for a, b in ['xy'] %}{{ a }}{{ b }};{% endfor %}
{% for a, b in [1] %}{{ a }}{% endfor %}
{% for a, b in [(1,2,3)] %}{{ a }}{% endfor %}
{% for (a, b), c in [((1,2),3)] %}{{ a }}{{ b }}{{ c }}{% endfor %}
{% for k, v in {'a':1,'b':2}.items() %}{{ k }}={{ v }}{% if not loop.last %},{% endif %}{% endfor %}
{% for k, v in {'b':1,'a':2}|dictsort %}{{ k }}={{ v }};{% endfor %}
{% for k, v in {'b':1}|items %}{{ k }}={{ v }};{% endfor %}
{% for k in {'b':1,'a':2} %}{{ k }}{% endfor %}
{% for c in 'héy' %}{{ c }},{% endfor %}
{% for i in [] %}x{% else %}y{% endfor %}
{% for i in u %}x{% else %}y{% endfor %}
{% for i in none %}x{% endfor %}
{% for i in 5 %}x{% endfor %}
{% for i in 1,2 %}{{ i }}{% endfor %}
{% for i in [1,2,3] %}{% if i == 2 %}{% continue %}{% endif %}{{ i }}{% endfor %}
{% for i in [1,2,3] %}{% if i == 2 %}{% break %}{% endif %}{{ i }}{% else %}e{% endfor %}
{% for i in [1,2] %}{% for j in [3,4] %}{% break %}{% endfor %}{{ i }}{{ loop.index }}{% endfor %}
{% break %}
{% macro f() %}{% break %}{% endmacro %}{{ f() }}
{% for i in [1,2] %}{% macro f() %}{% break %}{% endmacro %}{{ f() }}{% endfor %}
{% for i in [1,2] %}{% for j in [3,4] %}{{ loop.index }}{{ loop.depth }}{% endfor %}{% endfor %}
{% for i in [1,[2,[3]]] recursive %}{% if i is iterable %}({{ loop(i) }}){% else %}{{ i }}@{{ loop.depth }}{% endif %}{% endfor %}
{% for i in [1,2] %}{{ loop([1]) }}{% endfor %}
{% set x = 1 %}{% for i in [1,2] %}{% set x = i %}{{ x }}{% endfor %}{{ x }}
{% set x = 1 %}{% for i in [1,2] %}{{ x }}{% set x = x + i %}{{ x }}{% endfor %}{{ x }}
{% for i in [1,2] %}{{ x is defined }}{% set x = i %}{% endfor %}{{ x is defined }}
{% if true %}{% set x = 1 %}{% endif %}{{ x }}
{% set x = 1 %}{% if true %}{% set x = 2 %}{% endif %}{{ x }}
{% set a, b = 1, 2 %}{{ a }}{{ b }}
{% set a, b = 'xy' %}{{ a }}{{ b }}
{% set (a, b) = [1,2] %}{{ a }}{{ b }}
{% set a = 1, 2 %}{{ a }}
{% set a %}x {{ 1 }}{% endset %}{{ a }}|
{% set a | upper %}x{% endset %}{{ a }}
{% set a | replace('x','y') | upper %}x{% endset %}{{ a }}
{% set a %}<{% endset %}{{ a|e }}{{ a + '<' }}
{% set ns = namespace(x=1) %}{% for i in [1,2] %}{% set ns.x = ns.x + i %}{% endfor %}{{ ns.x }}
{% set ns = namespace() %}{% set ns.y = [1] %}{{ ns.y }}{{ ns.q }}{{ ns['y'] }}
{% set ns = namespace(a=1) %}{{ ns }}
{% set d = {} %}{% set d.x = 1 %}
{% set q.x = 1 %}
{% set ns = namespace(x=1) %}{% set ns.x %}block{% endset %}{{ ns.x }}
{% set ns = namespace(_x=1) %}
{% set ns = namespace(x=1) %}{% set ns._x = 1 %}
{% set ns = namespace(x=1) %}{% set ns['x'] = 2 %}{{ ns.x }}
{% set ns = namespace(items=5) %}{{ ns.items }}
{% set x.y.z = 1 %}
{% set true = 1 %}
{% set 1 = 1 %}
{% set loop = 1 %}{{ loop }}
{% set x = x %}{{ x }}
{% set x = 1 if false %}{{ x }}
{% set messages = messages[1:] %}{{ messages|length }}
{% set tools = [] %}{{ tools }}
{% macro f(a, b=2) %}{{ a }}-{{ b }};{% endmacro %}{{ f(1) }}{{ f(1,3) }}{{ f(b=1,a=0) }}{{ f() }}
{% macro f(a, b=a) %}{{ a }}-{{ b }};{% endmacro %}{{ f(1) }}
{% macro f(a) %}{{ a }}{% endmacro %}{{ f(1,2) }}
{% macro f(a) %}{{ a }}{% endmacro %}{{ f(b=2) }}
{% macro f(a) %}{{ a }}{% endmacro %}{{ f(1,a=2) }}
{% macro f(a) %}{{ varargs }}{{ kwargs }}{% endmacro %}{{ f(1,2,x=3) }}
{% macro f(a=1, b) %}{% endmacro %}
{% macro f(a) %}{{ a is defined }}{% endmacro %}{{ f() }}{{ f(none) }}
{% macro f() %}{{ x }}{% endmacro %}{{ f() }}{% set x = 5 %}{{ f() }}
{% macro f(x) %}{% set y = x %}{{ y }}{% endmacro %}{{ f(1) }}{{ y is defined }}
{% macro f() %}{{ caller() }}{% endmacro %}{% call f() %}x{% endcall %}
{% macro f() %}{{ caller(1) }}{% endmacro %}{% call(a) f() %}x{{ a }}{% endcall %}
{% macro f() %}{{ caller is defined }}{% endmacro %}{{ f() }}{% call f() %}x{% endcall %}
{% macro f() %}x{% endmacro %}{% call f() %}x{% endcall %}
{% macro f(n) %}{{ n }}{% if n > 0 %}{{ f(n-1) }}{% endif %}{% endmacro %}{{ f(3) }}
{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}
{% macro f() %} x {% endmacro %}[{{ f() }}][{{ f()|trim }}]{{ f() ~ 1 }}
{% macro f() %}{% endmacro %}{{ f }}
{% macro f(a) %}{% endmacro %}{{ f.name }}{{ f.arguments }}
{% macro f(a) %}{{ g(a) }}{% endmacro %}{% macro g(b) %}<{{ b }}>{% endmacro %}{{ f(1) }}
{% macro f(m) %}{% for x in m %}{{ x }}{{ loop.last }}{% endfor %}{% endmacro %}{% for i in [1] %}{{ f([i,2]) }}{% endfor %}
{% macro f(a) %}{{ a }}{% endmacro %}{{ [1,2]|map('f') }}
{% for x in [1,2] %}{% macro f() %}{{ x }}{% endmacro %}{{ f() }}{% endfor %}
{% call range(3) %}x{% endcall %}
{% filter upper %}a{{ 'b' }}{% endfilter %}
{% filter replace('a','b')|upper %}abc{% endfilter %}
{% filter nosuch %}a{% endfilter %}
{% with a = 1, b = 2 %}{{ a }}{{ b }}{% endwith %}{{ a is defined }}
{% with %}{% set a = 1 %}{{ a }}{% endwith %}{{ a is defined }}
{% set a = 5 %}{% with a = 1, b = a %}{{ b }}{% endwith %}{{ a }}
{% generation %}a{{ 1 }}{% endgeneration %}b
{% generation %}{% set x = 1 %}{{ x }}{% endgeneration %}{{ x is defined }}
{% for i in [1,2] %}{% generation %}{{ i }}{{ loop.index }}{% endgeneration %}{% endfor %}
{% for i in [1,2] %}{% generation %}{% break %}{% endgeneration %}{% endfor %}
{% include 'x' %}
{% extends 'x' %}
{% import 'x' as y %}
{% from 'x' import y %}
{% block a %}x{% endblock %}
{% block a %}x{% endblock a %}{{ self.a() }}
{% autoescape true %}{{ '<' }}{% endautoescape %}
{% do x %}
{% trans %}x{% endtrans %}
{% debug %}
{% if 1 %}{% for %}{% endif %}
{% for i in [1] %}{% endif %}
{% endfor x %}
{% if true %}a{% endif x %}
{% macro 1() %}{% endmacro %}
{% macro f %}{% endmacro %}
{% set x %}
{% if true -%} a {%- else -%} b {%- endif -%} c
{{ 'a' -}}   \n b
a \n {{- 'b' }}
a\n\n   {% set x = 1 %}\n\nb
\t{% set x = 1 %}\n\tb
x\t{% set x = 1 %}\ny
a\n {% set x = 1 %} {% set y = 2 %}\nb
{%if true%}a{%endif%}
{%-if true-%}a{%-endif-%}
{{1}}{{'}}'}}{{"%}"}}
{{ {'a': {'b': {}}} }}
{{ {} }}
{{ {}}}
{% set x = {'a': 1}%}{{ x }}
{% set x = '%}' %}{{ x }}
%}}} {
{ {
{{ 'a' }}{ {% if true %}}{% endif %}
# a\n## b\n
{{ messages[0].content }}|{{ messages[1]['content'] }}
{{ a }}{{ a.b is defined }}
{% for m in messages %}{{ loop.index }}{{ m.role[0] }}{{ m['content'][:3] }}{% endfor %}
{% for m in messages[::-1] %}{{ m.role }} {% endfor %}
{% for m in messages if m.role == 'user' %}{{ loop.index }}{{ m.content|trim }}{% endfor %}
{%- for tool in [tool] %}{{ tool|tojson(indent=4) }}{% endfor %}
{%- for tool in [tool] %}{{ tool|tojson }}{% endfor %}
{% set g = [1,2]|map('string') %}{{ g|list }}{{ g|list }}
{% set g = [1,2]|select %}{% for x in g %}{{ x }}{% endfor %}{% for x in g %}{{ x }}{% endfor %}
{% set g = [1,2]|map('string') %}{{ g|first }}{{ g|list }}
{% set x = [] %}{% set x = x + [1] %}{{ x }}
{% set _ = [].append(1) %}
{% set x = messages|length %}{{ x }}{% if x > 2 and x < 9 %}!{% endif %}
{%- set a = 1 %}{%- set b = 2 -%} {{- a + b -}}
{{ '\n' }}x{{ "\t" }}y
{% set dict = 3 %}{{ dict }}
{% set range = 3 %}{{ range }}
{% set upper = 3 %}{{ 'a'|upper }}{{ upper }}
{% for loop in [1] %}{{ loop }}{% endfor %}
{% for x in [1] %}{% set loop = 5 %}{{ loop }}{% endfor %}
{{ messages[0]|tojson }}{{ messages|tojson|length }}
{% for x in range(3) %}{{ x }}{% endfor %}
{% for x in [[1,2],[3]]|sum(start=[]) %}{{ x }}{% endfor %}
{% if messages[0]['role'] == 'system' %}{% set system_message = messages[0]['content']|trim %}{% set messages = messages[1:] %}{% else %}{% set system_message = '' %}{% endif %}{{ system_message }}{{ messages|length }}
{% for i in [1,2,3] %}{{ loop.cycle() }}{% endfor %}
{{ nested.cycle(1) }}
{% filter trim|replace('a','b') %} aXa {% endfilter %}|
{% filter length %}abc{% endfilter %}
{% filter indent(2) %}a\nb{% endfilter %}
{% set ns = namespace() %}{% set ns.x | upper %}q{% endset %}{{ ns.x }}
{% set x | length %}abc{% endset %}{{ x + 1 }}
{% with a, b = [1,2] %}{{ a }}{{ b }}{% endwith %}
{% with a = 1, %}{{ a }}{% endwith %}
{% with x %}{% endwith %}
{% set d = 1 %}{% with d = 5, c = d %}{{ c }}{% endwith %}{{ d }}
{% macro f(x) %}<{{ caller() }}{{ x }}>{% endmacro %}{% call f(1) %}in{{ 2 }}{% endcall %}
{% macro f() %}{{ caller('p', b=3) }}{% endmacro %}{% call(a, b, c=9) f() %}{{ a }}{{ b }}{{ c }}{% endcall %}
{% macro f() %}{{ caller('p') }}{% endmacro %}{% call f() %}x{% endcall %}
{% macro g() %}[{{ caller() }}]{% endmacro %}{% macro f() %}{% call g() %}in{{ caller is defined }}{% endcall %}{% endmacro %}{{ f() }}
{% macro g() %}[{{ caller() }}]{% endmacro %}{% macro f() %}{% call g() %}{{ caller() }}{% endcall %}{% endmacro %}{% call f() %}z{% endcall %}
{% macro f() %}{{ caller() }}{% endmacro %}{% set q = 1 %}{% call f() %}{% set q = 2 %}{{ q }}{% endcall %}{{ q }}
{% macro f() %}{% for i in [1,2] %}{{ caller(i) }}{% endfor %}{% endmacro %}{% call(i) f() %}({{ i }}){% endcall %}
{% for i in [1,2] %}{% macro f() %}{{ caller() }}{% endmacro %}{% call f() %}{{ i }}{{ loop.index }}{% endcall %}{% endfor %}
{% macro f() %}{{ caller() }}{% endmacro %}{{ f() }}
{% macro f() %}{% macro g() %}{{ caller is defined }}{% endmacro %}{{ g() }}{% endmacro %}{% call f() %}x{% endcall %}
{% macro f(x=caller) %}{{ x is defined }}{% endmacro %}{{ f() }}
{% macro f(caller=2) %}{{ caller }}{% endmacro %}{{ f() }}
{% macro f() %}{{ caller.name }}{% endmacro %}{% call f() %}x{% endcall %}
{% call f %}x{% endcall %}
{% macro f() %}{{ caller()|upper }}{% endmacro %}{% call() f() %}x{% endcall %}
{% for g in rows|groupby('n') %}{{ g.grouper }}:{% for x in g.list %}{{ x.v }},{% endfor %};{% endfor %}
{% for n, l in rows|groupby('n') %}{{ n }}:{{ l|length }};{% endfor %}
{% if nested.a.b[1].items %}{{ nested['keys']['type'] == 'string' }}{% endif %}
{% set caller = 3 %}{{ caller }}
"""
cases += [t.replace("\\n", "\n").replace("\\r", "\r").replace("\\t", "\t") for t in STATEMENTS.strip("\n").split("\n")]


# Templates in the styles of published ones: Llama 3, Qwen 2.5, Qwen 3, SmolLM3, Gemma 3, OLMo 2, Mistral, GLM 4,
# DeepSeek, Phi 4, Granite, Hermes and gpt-oss.
cases += [
    """{{- bos_token }}
{%- if custom_tools is defined %}
    {%- set tools = custom_tools %}
{%- endif %}
{%- if not date_string is defined %}
    {%- if strftime_now is defined %}
        {%- set date_string = strftime_now("%d %b %Y") %}
    {%- else %}
        {%- set date_string = "26 Jul 2024" %}
    {%- endif %}
{%- endif %}
{%- if messages[0]['role'] == 'system' %}
    {%- set system_message = messages[0]['content']|trim %}
    {%- set messages = messages[1:] %}
{%- else %}
    {%- set system_message = "" %}
{%- endif %}
{{- "<|start_header_id|>system<|end_header_id|>\n\n" }}
{%- if tools is not none %}
    {{- "Environment: ipython\n" }}
    {%- for t in tools %}
        {{- t | tojson(indent=4) }}
    {%- endfor %}
{%- endif %}
{{- "Today Date: " + date_string + "\n\n" + system_message + "<|eot_id|>" }}
{%- for message in messages %}
    {%- if not (message.role == 'ipython' or message.role == 'tool' or 'tool_calls' in message) %}
        {{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\n\n'+ message['content'] | trim + '<|eot_id|>' }}
    {%- elif message.tool_calls|length != 1 %}
        {{- raise_exception("This model only supports single tool-calls at once!") }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|start_header_id|>assistant<|end_header_id|>\n\n' }}
{%- endif %}
""",
    """{%- if tools %}
    {{- '<|im_start|>system\n' }}{{- messages[0].content + '\n\n# Tools\n<tools>' }}
    {%- for tool in tools %}{{- "\n" }}{{- tool | tojson }}{%- endfor %}
{%- elif messages[0]['role'] == 'system' %}
    {{- '<|im_start|>system\n' + messages[0]['content'] + '<|im_end|>\n' }}
{%- endif %}
{%- set ns = namespace(multi_step_tool=true, last_query_index=messages|length - 1) %}
{%- for message in messages[::-1] %}
    {%- set index = (messages|length - 1) - loop.index0 %}
    {%- if ns.multi_step_tool and message.role == "user" and message.content is string and not(message.content.startswith('<tool_response>') and message.content.endswith('</tool_response>')) %}
        {%- set ns.multi_step_tool = false %}
        {%- set ns.last_query_index = index %}
    {%- endif %}
{%- endfor %}
{%- for message in messages %}
    {%- set content = message.content if message.content is string else '' %}
    {%- if (message.role == "user") or (message.role == "system" and not loop.first) %}
        {{- '<|im_start|>' + message.role + '\n' + content + '<|im_end|>' + '\n' }}
    {%- elif message.role == "assistant" %}
        {%- set reasoning_content = '' %}
        {%- if message.reasoning_content is string %}
            {%- set reasoning_content = message.reasoning_content %}
        {%- else %}
            {%- if '</think>' in content %}
                {%- set reasoning_content = content.split('</think>')[0].rstrip('\n').split('<think>')[-1].lstrip('\n') %}
                {%- set content = content.split('</think>')[-1].lstrip('\n') %}
            {%- endif %}
        {%- endif %}
        {%- if loop.index0 > ns.last_query_index %}
            {%- if loop.last or (not loop.last and reasoning_content) %}
                {{- '<|im_start|>' + message.role + '\n<think>\n' + reasoning_content.strip('\n') + '\n</think>\n\n' + content.lstrip('\n') }}
            {%- endif %}
        {%- else %}
            {{- '<|im_start|>' + message.role + '\n' + content }}
        {%- endif %}
        {%- for tool_call in message.tool_calls or [] %}
            {{- tool_call.arguments if tool_call.arguments is string else tool_call.arguments | tojson }}
        {%- endfor %}
        {{- '<|im_end|>\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}
        {{- '<think>\n\n</think>\n\n' }}
    {%- endif %}
{%- endif %}""",
    """{%- if enable_thinking is not defined -%}
{%- set enable_thinking = true -%}
{%- endif -%}
{%- set reasoning_mode = "/think" if enable_thinking else "/no_think" -%}
{{- "<|im_start|>system\n" -}}
{%- if messages[0].role == "system" -%}
  {%- set system_message = messages[0].content -%}
  {%- if "/no_think" in system_message -%}
    {%- set reasoning_mode = "/no_think" -%}
  {%- endif -%}
  {%- set custom_instructions = system_message.replace("/no_think", "").replace("/think", "").rstrip() -%}
{%- endif -%}
{%- set today = strftime_now("%d %B %Y") -%}
{{- "Today Date: " ~ today ~ "\n" -}}
{{- "Reasoning Mode: " + reasoning_mode + "\n\n" -}}
{%- if custom_instructions -%}
  {{- custom_instructions + "\n\n" -}}
{%- endif -%}
{%- for message in messages -%}
    {%- set content = message.content if message.content is string else "" -%}
    {%- if message.role == "user" -%}
        {{ "<|im_start|>" + message.role + "\n"  + content + "<|im_end|>\n" }}
    {%- elif message.role == "assistant" -%}
        {% generation %}
        {%- if reasoning_mode == "/think" -%}
            {{ "<|im_start|>assistant\n" + content.lstrip("\n") + "<|im_end|>\n" }}
        {%- else -%}
            {{ "<|im_start|>assistant\n" + "<think>\n\n</think>\n" + content.lstrip("\n") + "<|im_end|>\n" }}
        {%- endif -%}
        {% endgeneration %}
    {%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}
    {{ "<|im_start|>assistant\n" }}
{%- endif -%}""",
    """{{ bos_token }}
{%- if messages[0]['role'] == 'system' -%}
    {%- if messages[0]['content'] is string -%}
        {%- set first_user_prefix = messages[0]['content'] + '\n\n' -%}
    {%- else -%}
        {%- set first_user_prefix = messages[0]['content'][0]['text'] + '\n\n' -%}
    {%- endif -%}
    {%- set loop_messages = messages[1:] -%}
{%- else -%}
    {%- set first_user_prefix = "" -%}
    {%- set loop_messages = messages -%}
{%- endif -%}
{%- for message in loop_messages -%}
    {%- if (message['role'] == 'user') != (loop.index0 % 2 == 0) -%}
        {{ raise_exception("Conversation roles must alternate user/assistant/user/assistant/...") }}
    {%- endif -%}
    {%- if (message['role'] == 'assistant') -%}
        {%- set role = "model" -%}
    {%- else -%}
        {%- set role = message['role'] -%}
    {%- endif -%}
    {{ '<start_of_turn>' + role + '\n' + (first_user_prefix if loop.first else "") }}
    {%- if message['content'] is string -%}
        {{ message['content'] | trim }}
    {%- elif message['content'] is iterable -%}
        {%- for item in message['content'] -%}
            {%- if item['type'] == 'image' -%}
                {{ '<start_of_image>' }}
            {%- elif item['type'] == 'text' -%}
                {{ item['text'] | trim }}
            {%- endif -%}
        {%- endfor -%}
    {%- endif -%}
    {{ '<end_of_turn>\n' }}
{%- endfor -%}
{%- if add_generation_prompt -%}
    {{'<start_of_turn>model\n'}}
{%- endif -%}
""",
    """{{ bos_token }}{% for message in messages %}{% if message['role'] == 'system' %}{{ '<|system|>\n' + message['content'] + '\n' }}{% elif message['role'] == 'user' %}{{ '<|user|>\n' + message['content'] + '\n' }}{% elif message['role'] == 'assistant' %}{% if not loop.last %}{{ '<|assistant|>\n'  + message['content'] + eos_token + '\n' }}{% else %}{{ '<|assistant|>\n'  + message['content'] + eos_token }}{% endif %}{% endif %}{% if loop.last and add_generation_prompt %}{{ '<|assistant|>\n' }}{% endif %}{% endfor %}""",
    """{%- if messages[0]["role"] == "system" %}
    {%- set system_message = messages[0]["content"] %}
    {%- set loop_messages = messages[1:] %}
{%- else %}
    {%- set loop_messages = messages %}
{%- endif %}
{%- if not tools is defined %}
    {%- set tools = none %}
{%- endif %}
{%- set user_messages = loop_messages | selectattr("role", "equalto", "user") | list %}
{%- set ns = namespace() %}
{%- set ns.index = 0 %}
{%- for message in loop_messages %}
    {%- if not (message.role == "tool" or (message.tool_calls is defined and message.tool_calls is not none)) %}
        {%- if (message["role"] == "user") != (ns.index % 2 == 0) %}
            {{- raise_exception("roles must alternate") }}
        {%- endif %}
        {%- set ns.index = ns.index + 1 %}
    {%- endif %}
{%- endfor %}
{{- bos_token }}
{%- for message in loop_messages %}
    {%- if message["role"] == "user" %}
        {%- if tools is not none and (message == user_messages[-1]) %}
            {{- "[AVAILABLE_TOOLS] [" }}
            {%- for tool in tools %}
                {%- set tool = tool.function %}
                {{- '{"type": "function", "function": {' }}
                {%- for key, val in tool.items() if key != "return" %}
                    {%- if val is string %}
                        {{- '"' + key + '": "' + val + '"' }}
                    {%- else %}
                        {{- '"' + key + '": ' + val|tojson }}
                    {%- endif %}
                    {%- if not loop.last %}{{- ", " }}{%- endif %}
                {%- endfor %}
                {{- "}}" }}
            {%- endfor %}
            {{- "[/AVAILABLE_TOOLS]" }}
        {%- endif %}
        {%- if loop.last and system_message is defined %}
            {{- "[INST] " + system_message + "\n\n" + message["content"] + "[/INST]" }}
        {%- else %}
            {{- "[INST] " + message["content"] + "[/INST]" }}
        {%- endif %}
    {%- elif message["role"] == "assistant" %}
        {{- " " + message["content"]|trim + eos_token}}
    {%- else %}
        {{- raise_exception("Only user and assistant roles are supported!") }}
    {%- endif %}
{%- endfor %}
""",
    """[gMASK]<sop>
{%- macro visible_text(content) -%}
    {%- if content is string -%}
        {{- content }}
    {%- elif content is iterable and content is not mapping -%}
        {%- for item in content -%}
            {%- if item is mapping and item.type == 'text' -%}
                {{- item.text }}
            {%- elif item is string -%}
                {{- item }}
            {%- endif -%}
        {%- endfor -%}
    {%- else -%}
        {{- content }}
    {%- endif -%}
{%- endmacro -%}
{%- set ns = namespace(last_user_index=-1) %}
{%- for m in messages %}
    {%- if m.role == 'user' %}
        {% set ns.last_user_index = loop.index0 -%}
    {%- endif %}
{%- endfor %}
{% for m in messages %}
{%- if m.role == 'user' -%}<|user|>
{{ visible_text(m.content) }}
{{- '/nothink' if (enable_thinking is defined and not enable_thinking and not visible_text(m.content).endswith("/nothink")) else '' -}}
{%- elif m.role == 'assistant' -%}
<|assistant|>
{%- set content = visible_text(m.content) %}
{%- if loop.index0 > ns.last_user_index and '</think>' in content -%}
{{ '\n<think>' + content.split('</think>')[0].strip() +  '</think>'}}
{%- else -%}
{{ '\n<think></think>' }}
{%- endif -%}
{%- if content.strip() -%}
{{ '\n' + content.split('</think>')[-1].strip() }}
{%- endif -%}
{%- elif m.role == 'system' -%}
<|system|>
{{ visible_text(m.content) }}
{%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}
    <|assistant|>{{- '\n<think></think>' if (enable_thinking is defined and not enable_thinking) else '' -}}
{%- endif -%}""",
    """{% if not add_generation_prompt is defined %}{% set add_generation_prompt = false %}{% endif %}{% set ns = namespace(is_first=false, is_tool=false, system_prompt='', is_first_sp=true) %}{%- for message in messages %}{%- if message['role'] == 'system' %}{%- if ns.is_first_sp %}{% set ns.system_prompt = ns.system_prompt + message['content'] %}{% set ns.is_first_sp = false %}{%- else %}{% set ns.system_prompt = ns.system_prompt + '\n\n' + message['content'] %}{%- endif %}{%- endif %}{%- endfor %}{{ bos_token }}{{ ns.system_prompt }}{%- for message in messages %}{%- if message['role'] == 'user' %}{%- set ns.is_tool = false -%}{{'<|User|>' + message['content']}}{%- endif %}{%- if message['role'] == 'assistant' and 'tool_calls' not in message %}{% set content = message['content'] %}{% if '</think>' in content %}{% set content = content.split('</think>')[-1] %}{% endif %}{{'<|Assistant|>' + content + '<|end|>'}}{%- endif %}{%- endfor -%}{% if add_generation_prompt and not ns.is_tool %}{{'<|Assistant|><think>\n'}}{% endif %}""",
    """{% for message in messages %}{% if (message['role'] == 'system') %}{{'<|im_start|>system<|im_sep|>' + message['content'] + '<|im_end|>'}}{% elif (message['role'] == 'user') %}{{'<|im_start|>user<|im_sep|>' + message['content'] + '<|im_end|>'}}{% elif (message['role'] == 'assistant') %}{{'<|im_start|>assistant<|im_sep|>' + message['content'] + '<|im_end|>'}}{% endif %}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant<|im_sep|>' }}{% endif %}""",
    """{%- macro json_to_python_type(json_spec) %}
{%- set basic_type_map = {"string": "str", "number": "float", "integer": "int", "boolean": "bool"} %}
{%- if basic_type_map[json_spec.type] is defined %}
    {{- basic_type_map[json_spec.type] }}
{%- elif json_spec.type == "array" %}
    {{- "List[" + json_to_python_type(json_spec.items) + "]"}}
{%- elif json_spec.type is iterable %}
    {{- "Union[" }}
    {%- for t in json_spec.type %}
      {{- json_to_python_type({"type": t}) }}
      {%- if not loop.last %}{{- "," }}{%- endif %}
    {%- endfor %}
    {{- "]" }}
{%- else %}
    {{- "Any" }}
{%- endif %}
{%- endmacro %}
{%- for message in messages %}
    {%- if message.role == "user" or message.role == "system" or (message.role == "assistant" and message.tool_calls is not defined) %}
        {{- '<|im_start|>' + message.role + '\n' + message.content + '<|im_end|>' + '\n' }}
    {%- endif %}
{%- endfor %}
{%- for name, spec in tool.function.parameters.properties.items() %}
    {{- name + ": " + json_to_python_type(spec) }}
    {%- if spec.enum is defined %}{{- " in " + spec.enum | join(', ') }}{%- endif %}
{%- endfor %}
{%- if tool.function.parameters.required and 'zone' in tool.function.parameters.required %}{{- tool | tojson }}{%- endif %}
""",
    """{%- if documents %}{%- for d in documents %}{{ d['doc_id']|string }}{%- endfor %}{%- endif %}
{%- set loop_messages = messages[1:] if messages[0].role == 'system' else messages %}
{%- for message in loop_messages %}
{{- '<|start_of_role|>' ~ message['role'] ~ '<|end_of_role|>' ~ message['content'] | trim ~ '<|end_of_text|>\n' }}
{%- if loop.last and add_generation_prompt %}{{- '<|start_of_role|>assistant' }}{%- if controls %}{{- ' ' + controls | tojson() }}{%- endif %}{{- '<|end_of_role|>' }}{%- endif %}
{%- endfor %}""",
    """{%- macro type_of(spec) %}
{%- set names = {"string": "str", "integer": "int"} %}
{%- if names[spec.type] is defined %}
    {{- names[spec.type] }}
{%- elif spec.type == "array" %}
    {{- "list[" + type_of(spec|items) + "]" }}
{%- elif spec.type == "object" %}
    {{- "dict" if spec.additionalProperties is not defined else type_of(spec.additionalProperties) }}
{%- else %}
    {{- "Any" }}
{%- endif %}
{%- endmacro %}
{%- for spec in [tool.function.parameters, {"type": "array", "items": {"type": "string"}}, {"type": "array"}] %}
    {{- type_of(spec) ~ "\n" }}
{%- endfor %}""",
    """{%- macro type_of(spec, depth=0) -%}
    {%- if spec.type == "array" -%}
        {%- if spec['items'] -%}
            {{- (spec['items']['type'] or "any") + "[]" }}
        {%- else -%}
            {{- "any[]" }}
        {%- endif -%}
    {%- elif spec.type is iterable and spec.type is not string and spec.type[0] is defined -%}
        {{- spec.type | map('string') | map('upper') | join(" | ") }}
    {%- elif spec.enum -%}
        {{- '"' + spec.enum|join('" | "') + '"' -}}
    {%- elif spec.properties -%}
        {%- for name, inner in spec.properties.items() -%}
            {{- "  " * depth ~ name ~ ("?" if name not in (spec.required or [])) ~ ": " ~ type_of(inner, depth + 1) }}
            {%- if not loop.last -%}{{- "," }}{%- endif -%}
        {%- endfor -%}
    {%- endif -%}
{%- endmacro -%}
{%- for spec in [tool.function.parameters, {"type": "array"}, {"type": "array", "items": {"type": "number"}}, {"type": ["string", "null"]}] %}
{{ type_of(spec) }}{{ "[]" if spec['items'] is defined }}
{%- endfor %}
{%- for future in messages[1:] if future.role == 'assistant' and "tool_calls" not in future %}{{ loop.index }}{% endfor %}""",
]

def render(template):
    try:
        text = compile_template(template).render(**copy.deepcopy(VARIABLES), strftime_now=DATE.strftime)
        text.encode()  # half a surrogate pair is no text
        return None if re.search(r" at 0x[0-9a-f]{6}", text) or "lipsum" in template or "|random" in template else text
    except Exception:
        return None


rendered = [(t, render(t)) for t in dict.fromkeys(cases)]
rendered = [(t, text) for i, (t, text) in enumerate(rendered) if text is not None or i > len(rendered) - 700 or i % 6 == 0]
print("[")
print(json.dumps([PREAMBLE, ""], ensure_ascii=False) + ",")
print(",\n".join(json.dumps(case, ensure_ascii=False) for case in rendered))
print("]")
