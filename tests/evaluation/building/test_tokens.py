from __future__ import annotations

import pytest

from evaluation.building.tokens import identifiers, normalise


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("int a;  // note\nint b;", "int a; int b;"),
        ("int a; /* a\nb */ int b;", "int a;\n\n  int b;"),
        ("#define A 1 // one\nint a;", "#define A 1\n\n\nint a;"),
        ("int\ta\r\n;", "int a ;"),
        ("#define A \\\n 1\nA", "#define A 1\nA"),
        ("// head\nint a;", "int a;\n"),
    ],
)
def test_comments_and_white_space_are_nothing(one: str, other: str) -> None:
    assert normalise(one) == normalise(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ('"a  b"', '"a b"'),
        ('"a // b"', '"a "'),
        ("'\\''  ' '", "'\\'' '  '"),
        ('R"x(a  b // )" )x"', 'R"x(a b // )" )x"'),
        ('R"(/* */)"', 'R"()"'),
        ('"\\"" /* x */ "y"', '"\\"" /* x */ "z"'),
        ("a + +b", "a ++b"),
        ("a / b", "a // b"),
        ("#define F(x) x", "#define F (x) x"),
        ("#define A 1\nB", "#define A 1 B"),
        ("S(a+b)", "S(a + b)"),
        ("1'000 'a'", "1'000 'b'"),
        ("int ab;", "int a b;"),
    ],
)
def test_what_the_program_sees_stays(one: str, other: str) -> None:
    assert normalise(one) != normalise(other)


def test_normalising_twice_changes_nothing() -> None:
    source = '#include <a>\nint f() { return R"(x  y)"[0] + \'"\' /* c */ ; } // end\n#if A\nB\n#endif\n'
    assert normalise(normalise(source)) == normalise(source)
    assert normalise(source) == '#include <a>\nint f() { return R"(x  y)"[0] + \'"\' ; }\n#if A\nB\n#endif'


def test_identifiers_leave_out_literals_and_comments() -> None:
    assert identifiers('int f /* g */ = "h"; // i\nR"(j)" u8"k" 0x1f') == {"int", "f"}


def test_an_unfinished_comment_or_literal_ends() -> None:
    assert normalise("int a; /* never") == "int a;"
    assert normalise('"never\nint b;') == '"never int b;'
