"""The seam between the package and the native module."""

import pytest

from tcpassay import _native


def test_every_key_and_element_has_its_line_and_column() -> None:
    data, places = _native.read_toml(
        'name = "x"\n[axes]\n"stack.cc" = ["reno", "cubic"]\n\n[[figure]]\nkind = "a"\n'
    )
    assert data == {"name": "x", "axes": {"stack.cc": ["reno", "cubic"]}, "figure": [{"kind": "a"}]}
    assert places[("name",)] == (1, 1)
    assert places[("axes", "stack.cc")] == (3, 1)
    assert places[("axes", "stack.cc", 1)] == (3, 23)
    assert places[("figure", 0)] == (5, 1)
    assert places[("figure", 0, "kind")] == (6, 1)


def test_text_that_is_not_toml_says_where_it_ends_to_be() -> None:
    with pytest.raises(_native.TomlError) as caught:
        _native.read_toml("a = 1\nb = \n")
    message, line, column = caught.value.args
    assert (line, column) == (2, 5)
    assert message
