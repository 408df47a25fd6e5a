"""The places in which two trees differ, and the counted lines that run them."""

from pathlib import Path

from tcpassay.gcov.catalogue import Catalogue, File, Function
from tcpassay.gcov.changed import Place, Tree, functions, places

SOURCE = """\
#define FLOOR 4 /* ms */
#define CLAMP(x) max(x, FLOOR)
static int window = 16;
struct state { int a; };

static void update(struct state *s)
{
\tif (s->a &&
\t    window)
\t\ts->a = CLAMP(s->a);
#ifdef CONFIG_OTHER
\ts->a = 1;
#endif
\ts->a++;
}
"""
COUNTED = (6, 8, 10, 14)
"""The lines to which gcc gives counters."""
HEADER = """\
#define RTO 200

static inline int rto(int x)
{
\treturn x +
\t       1;
}
"""
USER = """\
int timer(int x)
{
\treturn rto(x);
}
"""


def tree(folder: Path, source: str = SOURCE, header: str = HEADER) -> Tree:
    for name, text in (("net/a.c", source), ("include/net/tcp.h", header), ("net/b.c", USER)):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    own = File("net/a.c", (Function("update", 6, 15),), COUNTED, ())
    return Tree(folder, Catalogue((own, File("net/b.c", (Function("timer", 1, 4),), (1, 3), ()))))


def changed(tmp_path: Path, old: str, new: str, *, header: bool = False) -> list[Place]:
    """The places if the text `old` becomes `new`, without a change of the number of lines."""
    text = HEADER if header else SOURCE
    assert text.count(old) == 1
    after = text.replace(old, new)
    both = {"header": after} if header else {"source": after}
    return places(tree(tmp_path / "base"), tree(tmp_path / "head", **both))


def test_a_changed_statement_has_the_counter_of_its_line(tmp_path: Path) -> None:
    (place,) = changed(tmp_path, "s->a++;", "s->a--;")
    assert (place.file, place.first, place.last, place.on, place.uses) == ("net/a.c", 14, 14, "head", ())
    assert place.base == place.head == {("net/a.c", 14)}
    assert functions(tree(tmp_path / "base"), place.base) == ["update"]


def test_the_second_line_of_a_condition_has_the_counter_of_the_first(tmp_path: Path) -> None:
    (place,) = changed(tmp_path, "\t    window)", "\t    window > 1)")
    assert place.head == {("net/a.c", 8)}


def test_a_changed_macro_runs_where_it_is_used_also_by_another_macro(tmp_path: Path) -> None:
    (place,) = changed(tmp_path, "FLOOR 4", "FLOOR 1")
    assert place.uses == ("FLOOR",)
    assert place.base == place.head == {("net/a.c", 10)}


def test_a_changed_constant_runs_where_it_is_used(tmp_path: Path) -> None:
    (place,) = changed(tmp_path, "window = 16", "window = 8")
    assert (place.uses, place.head) == (("window",), {("net/a.c", 8)})


def test_an_inline_function_of_a_header_runs_where_it_is_called(tmp_path: Path) -> None:
    (place,) = changed(tmp_path, "       1;", "       2;", header=True)
    assert (place.file, place.uses, place.head) == ("include/net/tcp.h", ("rto",), {("net/b.c", 3)})


def test_what_is_not_compiled_or_a_declaration_has_no_counter(tmp_path: Path) -> None:
    (other,) = changed(tmp_path, "s->a = 1;", "s->a = 2;")
    assert not other.counted
    (declared,) = changed(tmp_path, "struct state { int a; };", "struct state { long a; };")
    assert not declared.counted


def test_comments_and_blank_lines_are_no_change(tmp_path: Path) -> None:
    assert changed(tmp_path, "/* ms */", "/* milliseconds */") != []  # the line has code, too
    assert (
        changed(tmp_path, "struct state { int a; };\n\n", "struct state { int a; };\n/* a\n * b */\n\n") == []
    )


def test_a_removed_line_is_a_place_of_base(tmp_path: Path) -> None:
    (place,) = changed(tmp_path, "\ts->a++;\n", "")
    assert (place.first, place.on, place.head) == (14, "base", frozenset())
    assert place.base == {("net/a.c", 14)}


def test_a_line_was_executed_if_its_bit_is_set(tmp_path: Path) -> None:
    one = tree(tmp_path)
    assert one.executed([("net/a.c", 8), ("net/a.c", 10)], one.bit(("net/a.c", 10)))
    assert not one.executed([("net/a.c", 8)], one.bit(("net/a.c", 10)))
    assert not one.executed([], one.bit(("net/a.c", 10)))
