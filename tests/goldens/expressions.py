"""Golden expressions: small Jinja templates and their output in the environment of `transformers`.

Writes tests/data/templates/expressions.json. Needs transformers==5.24.0 and jinja2==3.1.6.
"""

import json
import pathlib

from templates import DATA, load_conversations
from transformers.utils import chat_template_utils

VARIABLES = {
    "s": "Hello, World",
    "spaced": " \t\u00a0\x1c two  words \n",
    "lines": "a\r\nb\n\nc\x0bd\u2028e\n",
    "html": "<b>\"x\" & 'y'</b>",
    "unicode": "Grüße 世界 👩‍👩‍👧 ß İ \u2028\x7f\u00ad",
    "quotes": "it's \"both\"",
    "apostrophe": "it's",
    "control": "\x00\x01\x1f\x7f\n\r\t\b\f\\/",
    "empty": "",
    "digits": "42",
    "n": 7,
    "neg": -7,
    "big": 9007199254740993,
    "huge": 18446744073709551615,
    "f": 1.5,
    "whole": 2.0,
    "small": 1.5e-07,
    "large": 1e22,
    "edge": 1e16,
    "third": 0.1,
    "yes": True,
    "no": False,
    "nothing": None,
    "l": [3, 1, 2],
    "strings": ["b", "A", "c", "B"],
    "mixed": [1, "two", None, True, 2.5, [1, [2]], {"k": "v"}],
    "d": {"b": 1, "a": {"x": [1, 2], "y": None}, "C": "c"},
    "keyed": {"items": 1, "keys": 2, "get": 3, "values": 4, "name": "n"},
    "ints": {"1": "one"},
    "people": [
        {"name": "Zoe", "age": 30, "tags": ["x"]},
        {"name": "adam", "age": 25},
        {"name": "Bob", "age": 30, "tags": []},
    ],
    "think": "<think>\nA\n</think>\n\nB",
}

PRINTED = [
    *VARIABLES,
    "missing", "missing.x", "missing['x']", "nothing.x", "n.x", "s.x", "d.b", "d['b']", "d.a.x[1]", "d.zz", "d.zz.x", "l[0]",
    "l[-1]", "l[9]", "l['x']", "s[0]", "s[-1]", "s[1:3]", "s[::-1]", "s[-3:]", "s[:-1]", "s[5:1]", "s[::2]",
    "l[::-1]", "l[1:]", "l[:-1]", "l[-2:]", "l[1:] + l[:1]", "l + [4]", "l * 2", "s * 2", "(1, 2)", "(1,)", "()", "[]", "{}",
    "{'a': 1, 2: 'b', none: true}", "(1, 2) + (3,)", "[1, 2] + (3,)", "n + f", "n - 1", "n * 2", "n / 2", "7 // 2", "-7 // 2", "n % 4", "neg % 4",
    "7.5 // 2", "7.5 % 2", "2 ** 10", "2 ** -1", "1 / 0", "n // 0", "-n", "not n", "n + '1'", "'1' + n", "s + s", "s + n", "s ~ n",
    "s ~ none", "s ~ true", "s ~ f", "s ~ whole", "s ~ l", "s ~ d", "s ~ missing", "missing ~ s", "missing + s", "s + missing", "none + s",
    "n == 7", "n == 7.0", "n == '7'", "yes == 1", "none == none", "missing == none", "missing == missing2", "l == [3, 1, 2]", "l[1:] == [1, 2]",
    "'a' < 'b'", "1 < 2 < 3", "3 > 2 >= 2", "n > f", "l < [3, 2]", "'B' < 'a'",
    "'a' in s", "'H' in s", "1 in l", "9 not in l", "'b' in d", "1 in d", "'x' in missing", "'x' in none", "none in l",
    "yes and n", "no or s", "no or none", "missing or 'x'", "empty or [] or 0 or 'z'", "'x' if n else 'y'", "'x' if no", "('x' if no) is defined", "not no and yes",
    "yes and not no", "not missing", "[] is defined", "s is string", "n is string", "s is mapping", "d is mapping", "l is mapping", "none is mapping",
    "s is iterable", "n is iterable", "none is iterable", "l is iterable", "d is iterable", "missing is iterable", "(1,) is iterable", "l[1:] is iterable",
    "s is sequence", "n is sequence", "none is sequence", "l is sequence", "d is sequence", "missing is sequence", "(1,) is sequence", "l[1:] is sequence",
    "d.items() is iterable", "d.items() is mapping", "(l | map('string')) is iterable", "(l | map('string')) is sequence",
    "n is number", "f is number", "yes is number", "s is number", "n is integer", "f is integer", "yes is integer", "f is float", "n is float", "n is boolean", "yes is boolean",
    "none is none", "missing is none", "none is defined", "missing is defined", "missing is undefined", "yes is true", "n is true", "1 is true", "no is false", "none is false",
    "n is odd", "n is even", "n is divisibleby 7", "n is divisibleby(2)", "s is lower", "s is upper", "n is eq 7", "n is equalto 7", "n is ne 7", "n is gt 1", "n is lessthan 9", "n is in [7]",
    "n is sameas n", "none is sameas none", "s is callable", "range is callable", "s is not string", "n is not none", "missing is not defined", "l is not mapping and n is number",
    "s | upper", "s | lower", "s | title", "'hello wORLD-foo bar_baz' | title", "'hello WORLD' | capitalize", "spaced | trim", "'xxaxx' | trim('x')", "none | trim", "missing | trim", "n | trim", "html | e", "html | escape", "html | safe", "html | safe | upper",
    "html | forceescape", "s | length", "unicode | length", "l | length", "d | length", "n | length", "none | length", "missing | length", "l | count",
    "l | first", "l | last", "[] | first", "[] | last", "s | first", "s | last", "d | first", "l | max", "l | min", "l | sum", "[] | max", "strings | max", "l | sort", "l | sort(reverse=true)", "strings | sort", "strings | sort(case_sensitive=true)", "people | sort(attribute='age') | map(attribute='name') | list", "people | sort(attribute='age,name') | map(attribute='name') | list", "people | sort(attribute='name') | map(attribute='name') | list",
    "l | join", "l | join(', ')", "mixed | join('|')", "people | join(', ', attribute='name')", "s | join('-')", "d | join(',')", "missing | join(',')", "[1, missing] | join(',')", "[[1], {'a': 2}] | join('/')",
    "l | list", "s | list", "d | list", "missing | list", "none | list", "(1, 2) | list", "l | reverse | list", "s | reverse", "l | unique | list", "strings | unique | list", "strings | unique(case_sensitive=true) | list",
    "l | map('string') | list", "strings | map('upper') | list", "strings | map('upper') | join(',')", "people | map(attribute='name') | join(',')", "people | map(attribute='tags', default='-') | list", "people | map(attribute='tags') | list", "people | map(attribute='zz') | list", "strings | map('replace', 'b', 'z') | list", "people | map(attribute='tags.0') | list",
    "l | select('gt', 1) | list", "mixed | select | list", "mixed | select('string') | list", "l | reject('eq', 1) | list", "mixed | reject('none') | list", "people | selectattr('age', 'equalto', 30) | map(attribute='name') | list", "people | selectattr('tags') | list | length", "people | selectattr('tags', 'defined') | list | length", "people | rejectattr('tags') | list | length", "people | rejectattr('name', 'in', ['Bob']) | list | length", "people | selectattr('age', 'eq', 30) | first", "people | selectattr('age', 'eq', 99) | first",
    "'yes' if people | selectattr('age', 'eq', 99) else 'no'", "'yes' if (people | selectattr('age', 'eq', 99) | list) else 'no'", "(people | map(attribute='name')) | length", "l | map('string')  | tojson", "l | select | first", "l | batch(2) | list", "l | slice(2) | list", "people | groupby('age') | list | length", "people | groupby('age') | map(attribute='grouper') | list", "people | groupby('age') | map('first') | list", "people | groupby('age') | map('last') | map('length') | list",
    "d | dictsort", "d | dictsort(true)", "d | dictsort(reverse=true)", "d | items | list", "missing | items | list", "none | items", "l | items", "d | dictsort | first",
    "missing | default('x')", "none | default('x')", "none | default('x', true)", "empty | default('x', boolean=true)", "missing | d('x')", "missing | default", "no | default('x', true)", "missing.x | default('x')",
    "n | string", "f | string", "none | string", "yes | string", "l | string", "missing | string", "small | string", "large | string", "digits | int", "'x' | int", "'x' | int(5)", "'3.7' | int", "3.7 | int", "none | int", "yes | int", "'0x1A' | int(0, 16)", "' 12 ' | int", "digits | float", "'x' | float", "n | float", "'1e3' | float", "neg | abs", "f | round", "2.5 | round", "3.5 | round", "2.567 | round(2)", "2.567 | round(1, 'floor')", "2.1 | round(0, 'ceil')", "n | round",
    "s | replace('l', 'L')", "s | replace('l', 'L', 1)", "s | replace('zz', 'L')", "n | replace('7', '8')", "none | replace('o', '0')", "s | indent", "lines | indent", "lines | indent(2, true)", "lines | indent(2, first=true, blank=true)", "'a\\nb\\n' | indent(2)", "'a' | indent(8, first=true)", "'' | indent", "'\\n\\n' | indent(2)", "lines | indent(width='> ')", "'x\\n' | indent(8, first=true) + 'y'",
    "'%s is %d' | format('a', 3)", "'%05.2f|%-5s|%x' | format(1.5, 'ab', 255)", "'%(a)s' | format(a=1)", "'%s' | format(none)", "s | attr('x')", "d | attr('items')", "s | filesizeformat", "l | xmlattr", "s | nosuchfilter", "s is nosuchtest", "nosuchfunction(1)", "n | from_json",
    "s | tojson", "html | tojson", "unicode | tojson", "control | tojson", "quotes | tojson", "n | tojson", "neg | tojson", "big | tojson", "huge | tojson", "f | tojson", "whole | tojson", "small | tojson", "large | tojson", "edge | tojson", "third | tojson", "yes | tojson", "none | tojson", "missing | tojson", "l | tojson", "mixed | tojson", "d | tojson", "[] | tojson", "{} | tojson", "(1, 2) | tojson", "people | tojson", "d.a.y | tojson", "l[1:] | tojson", "l + [1] | tojson", "(l + [1]) | tojson",
    "d | tojson(indent=2)", "mixed | tojson(indent=4)", "d | tojson(indent=0)", "d | tojson(indent='\\t')", "[[], {}] | tojson(indent=1)", "d | tojson(separators=(',', ':'))", "d | tojson(separators=(',', ': '), indent=2)", "d | tojson(sort_keys=true)", "d | tojson(ensure_ascii=true)", "unicode | tojson(ensure_ascii=true)", "control | tojson(true)", "d | tojson(false, 2)", "d | tojson(indent=none)", "{1: 'a', none: 'b', true: 'c', 1.5: 'd'} | tojson", "{(1, 2): 'a'} | tojson", "d | tojson | length", "d | tojson | safe", "tojson(d)",
    "s.upper()", "s.lower()", "s.title()", "s.capitalize()", "unicode.upper()", "unicode.lower()", "s.strip()", "spaced.strip()", "spaced.lstrip()", "spaced.rstrip()", "'xxaxx'.strip('x')", "'xyaxy'.lstrip('yx')", "'\\nab\\n'.rstrip('\\n')", "'abc'.strip('')", "spaced.strip(none)",
    "s.split()", "spaced.split()", "s.split(',')", "s.split(', ')[-1]", "s.split('l', 1)", "s.split(maxsplit=1)", "spaced.split(none, 1)", "s.split('zz')", "''.split()", "''.split(',')", "s.split('')", "s.rsplit('l', 1)", "s.rsplit(none, 1)", "spaced.rsplit(none, 1)", "think.split('</think>')[-1].lstrip('\\n')", "think.split('</think>')[0].rstrip('\\n').split('<think>')[-1].lstrip('\\n')", "lines.splitlines()", "lines.splitlines(true)", "''.splitlines()", "'a\\n'.splitlines()",
    "s.startswith('Hell')", "s.startswith(('x', 'H'))", "s.startswith('ello', 1)", "s.endswith('ld')", "s.endswith(('x', 'd'))", "s.endswith('')", "s.startswith(1)", "s.replace('l', 'L')", "s.replace('l', 'L', 2)", "s.replace('', '-')", "s.find('l')", "s.find('zz')", "unicode.find('世')", "s.find('l', 4)", "s.rfind('l')", "s.index('l')", "s.index('zz')", "s.count('l')", "s.count('')", "s.join(['a', 'b'])", "', '.join(strings)", "', '.join(l)", "''.join([])", "','.join('abc')", "','.join(d)",
    "s.removeprefix('Hello')", "s.removesuffix('World')", "s.removeprefix('x')", "digits.isdigit()", "digits.isnumeric()", "'²'.isdigit()", "'½'.isnumeric()", "s.isalpha()", "'ab'.isalpha()", "'ab1'.isalnum()", "' '.isspace()", "''.isspace()", "s.islower()", "s.isupper()", "'A1'.isupper()", "s.isascii()", "unicode.isascii()", "s.nosuch()", "s.format()", "'{} {}'.format('a', 1)", "'{0}-{1}-{0}'.format('a', 'b')", "'{a}'.format(a=1)", "'{:>5}|{:<5}|{:^5}|{:05d}|{:.2f}|{:,}'.format('a', 'b', 'c', 42, 1.5, 1234567)", "'{{}}'.format()", "'{}'.format(none)", "'{:x}'.format(255)",
    "d.items() | list", "d.keys() | list", "d.values() | list", "d.get('b')", "d.get('zz')", "d.get('zz', 'x')", "d.get('zz', none) is none", "d.get('b', default=2)", "keyed.items() | list | length", "keyed.get('name')", "keyed.keys() | list", "keyed['items']", "keyed.name", "keyed['get']", "d.copy()", "d.pop('b')", "d.update({'z': 1})", "d.setdefault('q', 1)", "l.append(1)", "l.pop()", "l.count(1)", "l.index(2)", "l.index(9)", "l.copy()", "l.sort()", "strings.index('c')", "l.extend([1])",
    "range(3) | list", "range(1, 7, 2) | list", "range(3, 0, -1) | list", "range(200000) | length", "dict(a=1, b=2)", "dict(d, z=1)", "namespace(a=1).a", "namespace(a=1).b", "joiner(',')()", "strftime_now('%Y-%m-%d')", "strftime_now('%d %b %Y')", "strftime_now('%B %d, %Y')", "strftime_now('%A %H:%M:%S %j %y %-d %e %p %I %%')", "raise_exception('no')", "raise_exception(n)",
    "'\\u00e9\\x41\\n\\t\\\\\\'\"'", "\"a\\\"b'\"", "'a' 'b'", "1_000", "0x1f", "1e3", "1.5e-3", "0b11", "0o17", "true", "True", "none", "None", "false", "False", "null", "undefined",
    "[1, 2, 3,]", "{'a': 1,}", "{'a': 'b'}['a']", "['x', \"it's\", 'say \"hi\"', 'both \\' \"']", "['\\n\\t\\\\', 'é', '\\x00', '\\u200b', '世']", "[none, true, 1.0, 1e22]", "[missing]", "{'k': missing}", "[(1,), (), {}]",
    "(html | safe) ~ html",
    "messages[0].role", "messages | length", "messages[-1]['content']", "tools is none", "tools is defined", "documents is none", "add_generation_prompt", "bos_token", "unk_token is defined", "loop", "loop is defined", "caller is defined", "varargs is defined",
]

STATEMENTS = [
    "{% for x in l %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.first }}{{ loop.last }}{{ loop.length }} {% endfor %}",
    "{% for x in l %}{{ loop.previtem }}{{ loop.nextitem }}{{ loop.cycle('a', 'b') }}{{ loop.depth }}{{ loop.changed(x) }}{% endfor %}",
    "{% for x in [] %}x{% else %}none{% endfor %}",
    "{% for x in missing %}x{% else %}none{% endfor %}",
    "{% for x in none %}x{% endfor %}",
    "{% for x in nothing %}x{% endfor %}",
    "{% for x in n %}x{% endfor %}",
    "{% for x in s %}{{ x }}.{% endfor %}",
    "{% for k in d %}{{ k }}{% endfor %}",
    "{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}",
    "{% for k, v in d | items %}{{ k }}={{ v }};{% endfor %}",
    "{% for k, v in d | dictsort %}{{ k }}={{ v }};{% endfor %}",
    "{% for a, b in [(1, 2), [3, 4]] %}{{ a }}{{ b }}{% endfor %}",
    "{% for (a, b) in [(1, 2)] %}{{ a }}{{ b }}{% endfor %}",
    "{% for a, b in [1] %}{{ a }}{% endfor %}",
    "{% for x in l if x > 1 %}{{ x }}{{ loop.index }}{{ loop.length }}{% endfor %}",
    "{% for x in (l if n else none) if x %}{{ x }}{% endfor %}",
    "{% for x in l if x > 9 %}x{% else %}empty{% endfor %}",
    "{% for x in 1, 2, 3 %}{{ x }}{% endfor %}",
    "{% for x in l %}{% if x == 1 %}{% continue %}{% endif %}{{ x }}{% endfor %}",
    "{% for x in l %}{% if x == 1 %}{% break %}{% endif %}{{ x }}{% endfor %}",
    "{% for x in l recursive %}{{ x }}{% if x == 3 %}{{ loop([7, 8]) }}{% endif %}{% endfor %}",
    "{% for x in l %}{% for y in l %}{{ loop.index }}{% endfor %}{{ loop.index }}{% endfor %}",
    "{% for x in range(3) %}{% set y = x %}{% endfor %}{{ y is defined }}",
    "{% set y = 0 %}{% for x in l %}{% set y = x %}{{ y }}{% endfor %}{{ y }}",
    "{% set ns = namespace(a=0) %}{% for x in l %}{% set ns.a = ns.a + x %}{% endfor %}{{ ns.a }}",
    "{% set ns = namespace() %}{% set ns.x = 1 %}{{ ns.x }}{{ ns.y is defined }}",
    "{% set d.x = 1 %}",
    "{% if n %}{% set z = 1 %}{% endif %}{{ z }}",
    "{% if no %}{% set z = 1 %}{% endif %}{{ z is defined }}",
    "{% set a, b = 1, 2 %}{{ a }}{{ b }}",
    "{% set x %}  block {{ n }} {% endset %}[{{ x }}]{{ x is string }}",
    "{% set x | upper %}block{% endset %}{{ x }}",
    "{% set x %}<{% endset %}{{ x + '<' }}",
    "{% filter upper %}text {{ s }}{% endfilter %}",
    "{% with a = 1, b = n %}{{ a }}{{ b }}{% endwith %}{{ a is defined }}",
    "{% macro m(a, b=2) %}{{ a }}-{{ b }}{% endmacro %}{{ m(1) }} {{ m(1, 3) }} {{ m(b=5, a=4) }} {{ m() }}",
    "{% macro m(a) %}{{ a }}{% endmacro %}{{ m(1, 2) }}",
    "{% macro m() %}{{ caller() }}{% endmacro %}{% call m() %}body{{ n }}{% endcall %}",
    "{% macro m() %}{{ caller(1) }}{% endmacro %}{% call(x) m() %}body{{ x }}{% endcall %}",
    "{% macro m(x) %}{% if x > 0 %}{{ x }}{{ m(x - 1) }}{% endif %}{% endmacro %}{{ m(3) }}",
    "{% macro m() %}{{ later }}{% endmacro %}{% set later = 5 %}{{ m() }}",
    "{% set later = 4 %}{% macro m() %}{{ later }}{% endmacro %}{% set later = 5 %}{{ m() }}",
    "{% macro m() %}{{ messages | length }}{% endmacro %}{{ m() }}",
    "{% macro a() %}{{ b() }}{% endmacro %}{% macro b() %}b{% endmacro %}{{ a() }}",
    "{% macro m(x) %}{% set x = x + 1 %}{{ x }}{% endmacro %}{{ m(1) }}",
    "{% macro m() %}  x  {% endmacro %}[{{ m() | trim }}]{{ m() is string }}{{ m() + '<' }}",
    "{% macro m(x) -%}\n  {{ x }}\n{%- endmacro -%}\n[{{ m(1) }}]",
    "{% for x in l %}{% macro m() %}{{ x }}{% endmacro %}{{ m() }}{% endfor %}",
    "{% for x in l %}{% set q = x %}{% macro m() %}{{ q }}{% endmacro %}{{ m() }}{% endfor %}",
    "{% macro m(x=missing) %}{{ x is defined }}{% endmacro %}{{ m() }}",
    "{% macro m(x=n) %}{{ x }}{% endmacro %}{{ m() }}{{ m.name }}",
    "{% raw %}{{ n }}{% endraw %}",
    "{# comment {{ n }} #}x{#- y -#} z",
    "  {% if yes %}\n  a\n  {% endif %}\n  b\n",
    "{% if yes -%}\n  a\n{%- endif %}\n\nb\n\n",
    "  {%- if yes %} a {% endif -%}  b",
    "  {%+ if yes %} a{% endif %}\nb",
    "  {% if yes +%}\n a{% endif %}\nb",
    "a\n  {# c #}\nb\n",
    "a {# c #} b\n\n",
    "{{ n }}\n{{ n }}\n",
    "{{- n }} \n {{ n -}} \n x",
    "a\r\nb\rc{{ '\r\n' }}",
    "{% generation %}g{{ n }}{% set inner = 1 %}{% endgeneration %}{{ inner is defined }}",
    "{%- generation -%}\n g {%- endgeneration -%}\n x",
    "{% for x in l %}{% generation %}{{ x }}{{ loop.index }}{% endgeneration %}{% endfor %}",
    "{% if missing %}a{% elif none %}b{% elif n == 7 %}c{% else %}d{% endif %}",
    "{% if s is string and n is number or missing.x %}a{% endif %}",
    "{% if not (s and n) %}a{% else %}b{% endif %}",
    "{% if missing.x.y %}a{% endif %}",
    "{% set x = missing.x %}",
    "{% do l %}",
    "{% include 'x' %}",
    "{% import 'x' as y %}",
    "{% block b %}x{% endblock %}",
    "{% block b %}x{{ n }}{% endblock %}{{ self.b() }}",
    "{% unknown %}",
    "{% if n %}",
    "{{ n",
    "{{ n }} }} %} {",
    "{{ '{{' }}{{ \"%}\" }}",
    "{% set x = '%}' %}{{ x }}",
    "{{ [1, 2, 3][n - 6] }}{{ {'a': {'b': 1}}.a.b }}",
    "{{ 'a' if n > 5 else 'b' if n > 3 else 'c' }}",
    "{{ l | map('multiply') }}",
    "{{ (l | length) > 2 and l[0] == 3 }}",
    "{{ l | length > 2 }}{{ -1 | abs }}{{ -l[0] | abs }}{{ 2 * 3 | string }}",
    "{{ 'a' ~ 1 + 2 ~ 'b' }}{{ 1 ~ 2 * 3 }}",
    "{{ not n in l }}{{ n not in l }}{{ not n == 7 }}",
    "{{ d.a.x | map('string') | join('+') ~ '!' }}",
    "{% for m in messages %}{{ m.role }}:{{ m['content'] }}|{{ m.tool_calls is defined }}{% endfor %}",
    "{% for m in messages[1:] %}{{ m.role }}{% endfor %}{{ messages[1:] | length }}{{ (messages[1:])[0].role }}",
    "{% for m in messages | reverse %}{{ m.role }}{% endfor %}",
    "{% set messages = messages[1:] %}{{ messages | length }}{% for m in messages %}{{ m.role }}{% endfor %}",
    "{% set g = l | map('string') %}{{ g | join(',') }}{{ g | join(',') }}",
    "{% set g = d.items() %}{{ g | length }}{{ g | list | length }}",
    "{% for x in l | select('gt', 1) %}{{ x }}{{ loop.last }}{% endfor %}",
    "{% for x in l | map('string') %}{{ loop.length }}{% endfor %}",
    "{% set x = [] %}{% for i in l %}{% set x = x + [i] %}{% endfor %}{{ x }}",
    "{% set ns = namespace(x=[]) %}{% for i in l %}{% set ns.x = ns.x + [i] %}{% endfor %}{{ ns.x }}{{ ns.x | tojson }}",
    "{% for x in l %}{{ x }}{{ ', ' if not loop.last }}{% endfor %}",
    "{% for x in l %}{{ ', ' if not loop.first }}{{ x }}{% endfor %}",
    "{% set x = 1 if no %}{{ x is defined }}{{ x }}",
    "{{ raise_exception('Stop: ' ~ n) if n }}",
    "{% if no %}{{ s | nosuchfilter }}{% endif %}ok",
    "{% if no %}{{ nosuchfunction() }}{% endif %}ok",
    "{{ s | nosuchfilter if no else 'ok' }}",
    "{{ s is nosuchtest if no else 'ok' }}",
    "{% set f = s.upper %}x",
]


def outcome(source, messages):
    """Renders a template: (text, None) or (None, error)."""
    try:
        (text,), _ = chat_template_utils.render_jinja_template(
            conversations=[messages], chat_template=source, bos_token="<s>", **VARIABLES
        )
    except Exception as error:  # any exception of a template is an outcome
        return {"template": source, "error": f"{type(error).__name__}: {error}"}
    return {"template": source, "text": text}


def main():
    """Writes the file, one template per line."""
    load_conversations()
    messages = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}]
    sources = [f"{{{{ {expression} }}}}" for expression in PRINTED] + STATEMENTS
    outcomes = [outcome(source, messages) for source in dict.fromkeys(sources)]
    outcomes = [result for result in outcomes if " at 0x" not in result.get("text", "")]
    lines = ",\n".join(json.dumps(result) for result in outcomes)
    text = f'{{"variables": {json.dumps(VARIABLES)},\n"outcomes": [\n{lines}\n]}}\n'
    pathlib.Path(DATA / "expressions.json").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
