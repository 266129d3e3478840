"""YAML files: plain data only, and a place in every refusal."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from autosched.spec import SpecError, load
from autosched.te.operators import matmul

GOOD = "workload:\n  op: matmul\n  m: 4\n  n: 6\n  k: 8\n  dtype: float16\n"
WORDS = "a workload in words is op:key=value,..., such as matmul:m=512,n=512,k=512,dtype=float16"


def refusal(monkeypatch: pytest.MonkeyPatch, folder: Path, text: str | bytes) -> str:
    monkeypatch.chdir(folder)
    raw = text if isinstance(text, bytes) else text.encode()
    Path("w.yaml").write_bytes(raw)
    with pytest.raises(SpecError) as caught:
        load("w.yaml")
    return str(caught.value)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "w.yaml:1:1: is empty, a spec says 'workload:' or 'suite:'"),
        ("# nothing\n", "w.yaml:1:1: is empty, a spec says 'workload:' or 'suite:'"),
        ("- a\n", "w.yaml:1:1: a spec is a mapping with 'workload:' or 'suite:'"),
        (
            GOOD.replace("m: 4", "m: !!int 4"),
            "w.yaml:3:6: tags such as !!int are not used in specs, write plain data",
        ),
        (
            "workload: !!python/object/apply:os.system [ls]\n",
            "w.yaml:1:11: tags such as !!python/object/apply:os.system are not used in specs, "
            "write plain data",
        ),
        (
            GOOD.replace("float16", "! float16"),
            "w.yaml:6:10: tags such as ! are not used in specs, write plain data",
        ),
        (
            "a: &a [1]\nb: *a\n",
            "w.yaml:1:4: anchors and aliases are not used in specs, write the value out",
        ),
        (
            "workload:\n  <<: {m: 4}\n",
            "w.yaml:2:3: merge keys are not used in specs, write the keys out",
        ),
        (
            GOOD + "  m: 5\n",
            'w.yaml:7:3: not a spec in YAML: found duplicate key "m" with value "5" '
            '(original value: "4")',
        ),
        (GOOD + "---\n" + GOOD, "w.yaml:7:1: a second document begins, a spec is one"),
        (
            "%YAML 1.1\n---\n" + GOOD,
            "w.yaml:2:1: directives are not used in specs, remove the line",
        ),
        (
            "workload: {op: matmul\n",
            "w.yaml:2:1: not a spec in YAML: expected ',' or '}', but got '<stream end>'",
        ),
        (
            "workload:\n\top: matmul\n",
            "w.yaml:2:1: not a spec in YAML: found character '\\t' that cannot start any token",
        ),
        (
            "workload:\n  op: 2001-01-01\n",
            "w.yaml:2:7: a date is not used in specs, quote a text",
        ),
        ("workload:\n  1: 2\n", "w.yaml:2:3: a key is a name, not 1"),
        ("workload:\n  [a]: 2\n", "w.yaml:2:3: a key is a name, not a list or a mapping"),
        ("workload: " + "[" * 2000, "w.yaml:1:26: is nested more than 16 deep"),
        (
            GOOD.replace("m: 4", "m: " + "9" * 6000),
            "w.yaml:3:6: a number has at most 40 digits, not 6000",
        ),
        (b"workload:\n  # \xe9\n", "w.yaml:2:5: is not UTF-8, a spec is"),
        (b"#" * (1 << 21), "w.yaml: is larger than 262144 bytes, which no spec is"),
    ],
)
def test_more_than_data_is_refused(
    text: str | bytes, sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert refusal(monkeypatch, tmp_path, text) == sentence


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("missing.yaml", f"missing.yaml: no such file; {WORDS}"),
        ("missing/w.yaml", f"missing/w.yaml: no such file; {WORDS}"),
        ("folder", "folder: is a directory, a spec is a file"),
        ("w.yaml/x.yaml", "'w.yaml/x.yaml': cannot be read: Not a directory"),
        ("/dev/null", "/dev/null: is no file, a spec is a file"),
        ("a\0b", "'a\\x00b': cannot be read: embedded null byte"),
    ],
)
def test_what_is_no_file_is_refused(
    name: str, sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("folder").mkdir()
    Path("w.yaml").write_text(GOOD)
    with pytest.raises(SpecError) as caught:
        load(name)
    assert str(caught.value) == sentence


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig"])
def test_line_ends_and_byte_order_marks_do_not_matter(
    newline: str, encoding: str, tmp_path: Path
) -> None:
    path = tmp_path / "w.yml"
    path.write_bytes(GOOD.replace("\n", newline).encode(encoding))
    (task,) = load(str(path))
    assert task.workload == matmul(4, 6, 8, dtype="float16")


@given(st.text("aop:mnk 4[]{},-&*!#'\"\n|>%@?~", max_size=50) | st.binary(max_size=30))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_file_is_refused_with_a_sentence(tmp_path: Path, text: str | bytes) -> None:
    path = tmp_path / "any.yaml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(SpecError) as caught:
        load(str(path))
    assert "\n" not in str(caught.value)
