"""Patch files: what is read from them, and the messages about those that do not apply."""

from pathlib import Path

import pytest

from tcpassay.errors import UserError
from tcpassay.kernel import series

CHANGE = """Subject: [PATCH] two hunks

--- is not a file here
---
 net/ipv4/tcp.c | 2 ++
diff --git a/net/ipv4/tcp.c b/net/ipv4/tcp.c
index 1..2 100644
--- a/net/ipv4/tcp.c
+++ b/net/ipv4/tcp.c
@@ -1,2 +1,3 @@
 one
+one and a half
 two
@@ -9 +10 @@ context
-nine
+NINE
--
2.39.5
"""
TEN = "one\ntwo\nthree\nfour\nfive\nsix\nseven\neight\nnine\nten\n"


def patch(tmp_path: Path, text: str, name: str = "change.patch") -> series.Patch:
    file = tmp_path / name
    file.write_bytes(text.encode())
    return series.read([file])[0]


def tree(tmp_path: Path, **files: str) -> Path:
    made = tmp_path / "tree"
    for name, text in {"net/ipv4/tcp.c": TEN, **files}.items():
        (made / name).parent.mkdir(parents=True, exist_ok=True)
        (made / name).write_text(text)
    return made


def test_a_patch_of_two_hunks_is_applied(tmp_path: Path) -> None:
    made = tree(tmp_path)
    change = patch(tmp_path, CHANGE)
    assert change.touches == ["net/ipv4/tcp.c"]
    series.apply(change, made)
    assert (made / "net/ipv4/tcp.c").read_text() == TEN.replace("one\n", "one\none and a half\n").replace(
        "nine", "NINE"
    )
    assert sorted(file.name for file in made.rglob("*") if file.is_file()) == ["tcp.c"]


def test_the_hunk_that_does_not_apply_is_shown_with_its_file_and_its_line_in_the_patch(
    tmp_path: Path,
) -> None:
    made = tree(tmp_path, **{"net/ipv4/tcp.c": TEN.replace("nine", "9")})
    with pytest.raises(UserError) as failed:
        series.apply(patch(tmp_path, CHANGE), made)
    said = "patch `change` does not apply: `net/ipv4/tcp.c`, hunk 2 of 2"
    assert str(failed.value).splitlines() == [
        f"{tmp_path}/change.patch:14: {said}, expected at line 10",
        "    @@ -9 +10 @@ context",
        "    -nine",
        "    +NINE",
    ]


def test_a_patch_that_the_tree_contains_already_is_distinguished_from_one_that_does_not_apply(
    tmp_path: Path,
) -> None:
    made = tree(tmp_path)
    series.apply(patch(tmp_path, CHANGE), made)
    with pytest.raises(UserError, match=r"change.patch: .* `net/ipv4/tcp.c` already contains it"):
        series.apply(patch(tmp_path, CHANGE), made)


def test_a_patch_that_the_tree_contains_in_part_is_refused_with_its_hunk(tmp_path: Path) -> None:
    made = tree(tmp_path, **{"net/ipv4/tcp.c": TEN.replace("one\n", "one\none and a half\n")})
    with pytest.raises(UserError, match=r"change.patch:10: .* hunk 1 of 2, expected at line 1"):
        series.apply(patch(tmp_path, CHANGE), made)


def test_a_file_that_is_not_in_the_tree_is_named(tmp_path: Path) -> None:
    change = patch(tmp_path, CHANGE.replace("tcp.c", "tcp_new.c"))
    with pytest.raises(UserError, match=r"`net/ipv4/tcp_new\.c` is not in this tree"):
        series.apply(change, tree(tmp_path))


def test_files_are_created_renamed_and_deleted(tmp_path: Path) -> None:
    text = """diff --git a/net/a.c b/net/b.c
similarity index 100%
rename from net/a.c
rename to net/b.c
diff --git a/net/old.c b/net/old.c
deleted file mode 100644
--- a/net/old.c
+++ /dev/null
@@ -1 +0,0 @@
-old
diff --git a/net/new.c b/net/new.c
new file mode 100644
--- /dev/null
+++ b/net/new.c
@@ -0,0 +1 @@
+new
"""
    made = tree(tmp_path, **{"net/a.c": "a\n", "net/old.c": "old\n"})
    change = patch(tmp_path, text)
    assert change.touches == ["net/a.c", "net/b.c", "net/old.c", "net/new.c"]
    series.apply(change, made)
    found = {str(file.relative_to(made)): file.read_text() for file in made.rglob("*") if file.is_file()}
    assert found == {"net/ipv4/tcp.c": TEN, "net/b.c": "a\n", "net/new.c": "new\n"}


def test_a_mailbox_whose_second_patch_changes_what_the_first_made_is_applied(tmp_path: Path) -> None:
    first = "From: a\n\n--- /dev/null\n+++ b/net/new.c\n@@ -0,0 +1 @@\n+new\n-- \n2\n\n"
    second = "From: b\n\n--- a/net/new.c\n+++ b/net/new.c\n@@ -1 +1 @@\n-new\n+newer\n-- \n2\n"
    made = tree(tmp_path)
    series.apply(patch(tmp_path, first + second), made)
    assert (made / "net/new.c").read_text() == "newer\n"


def test_removed_lines_that_look_like_the_name_of_a_file_belong_to_the_hunk(tmp_path: Path) -> None:
    text = "--- a/net/ipv4/tcp.c\n+++ b/net/ipv4/tcp.c\n@@ -1,2 +1,2 @@\n--- a/x\n+++ b/x\n two\n"
    change = patch(tmp_path, text)
    assert change.touches == ["net/ipv4/tcp.c"]
    made = tree(tmp_path, **{"net/ipv4/tcp.c": "-- a/x\ntwo\n"})
    series.apply(change, made)
    assert (made / "net/ipv4/tcp.c").read_text() == "++ b/x\ntwo\n"


def test_parts_about_documentation_and_selftests_are_left_out(tmp_path: Path) -> None:
    documentation = "--- a/Documentation/tcp.rst\n+++ b/Documentation/tcp.rst\n@@ -1 +1 @@\n-a\n+b\n"
    change = patch(tmp_path, documentation + CHANGE)
    assert change.touches == ["net/ipv4/tcp.c"]
    with pytest.raises(UserError, match="it changes only files that a build does not read"):
        patch(tmp_path, documentation)


def test_a_file_that_is_no_patch_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"change.patch: it contains no change"):
        patch(tmp_path, "Dear maintainer,\n\nplease change it.\n")
    with pytest.raises(UserError, match=r"absent.patch: the patch cannot be read: no such file"):
        series.read([tmp_path / "absent.patch"])


@pytest.mark.parametrize("name", ["../etc/passwd", "/etc/passwd"])
def test_a_patch_that_leaves_the_tree_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(UserError, match=f"it changes `{name}`, which is not inside the tree"):
        patch(tmp_path, f"--- a/{name}\n+++ b/{name}\n@@ -1 +1 @@\n-a\n+b\n")


def test_a_binary_change_is_refused(tmp_path: Path) -> None:
    text = "diff --git a/net/x.bin b/net/x.bin\nindex 1..2\nGIT binary patch\nliteral 3\nabc\n"
    with pytest.raises(UserError, match=r"changes the binary file `net/x\.bin`"):
        series.apply(patch(tmp_path, text), tree(tmp_path))


def test_bytes_that_are_not_utf8_are_kept(tmp_path: Path) -> None:
    file = tmp_path / "latin.patch"
    file.write_bytes(b"--- a/net/ipv4/tcp.c\n+++ b/net/ipv4/tcp.c\n@@ -1 +1 @@\n-one\n+\xe4ins\n")
    made = tree(tmp_path)
    series.apply(series.read([file])[0], made)
    assert (made / "net/ipv4/tcp.c").read_bytes() == TEN.replace("one", "\xe4ins").encode("latin-1")


def test_a_folder_stands_for_its_patches_in_the_order_of_its_series(tmp_path: Path) -> None:
    for name in ("0002-b.patch", "0001-a.patch", "c.diff"):
        (tmp_path / name).write_text(CHANGE)
    assert [one.name for one in series.read([tmp_path])] == ["0001-a", "0002-b"]
    (tmp_path / "series").write_text("# order\nc.diff -p1\n0001-a.patch # first\n")
    assert [one.name for one in series.read([tmp_path])] == ["c", "0001-a"]
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError, match="empty: this folder has no patches"):
        series.read([tmp_path / "empty"])


def test_the_default_name_of_a_kernel_names_the_first_patch() -> None:
    patches = [series.Patch("0001 fix", ""), series.Patch("0002-more", "")]
    assert series.kernel_name("6.1", []) == "6.1"
    assert series.kernel_name("6.1", patches[:1]) == "6.1+0001-fix"
    assert series.kernel_name("6.1", patches) == "6.1+0001-fix+1"
