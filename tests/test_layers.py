"""Who may import what is heavy."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGES = ("autosched", "cost_model", "measure", "search_space")

#: Which modules may import a library, by prefix of their dotted names.
IMPORTERS = {
    "xgboost": ("cost_model.xgboost_model",),
    "sklearn": ("cost_model", "autosched.bench", "autosched.tune.forest"),
    "torch": (
        "measure",
        "autosched.runtime",
        "autosched.ops",
        "autosched.models",
        "autosched.bench",
        "autosched.export.shipped",
    ),
    "triton": ("measure",),
    "pydantic": (
        "autosched.experiment",
        "autosched.landscape",
        "autosched.spec",
        "measure.record",
        "measure.log",
        "measure.log_forms",
    ),
    "ruamel": ("autosched.spec",),
    "click": (
        "autosched.cli",
        "autosched.bench.search_live",
        "autosched.bench.feature_speed",
        "autosched.bench.host_cost",
        "autosched.bench.model_run",
    ),
    "rich": ("autosched.cli",),
    "matplotlib": ("autosched.experiment.drawing",),
    "jinja2": ("autosched.experiment.report",),
}


def imports(path: Path) -> set[str]:
    """The top-level names that a file imports, wherever in it, types apart."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            node.body = []
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module.partition(".")[0])
    return found


def modules() -> dict[str, Path]:
    paths = [path for package in PACKAGES for path in (ROOT / package).rglob("*.py")]
    return {".".join(p.relative_to(ROOT).with_suffix("").parts): p for p in paths}


@pytest.mark.parametrize("library", sorted(IMPORTERS))
def test_only_named_modules_import(library: str):
    intruders = [
        name
        for name, path in modules().items()
        if library in imports(path) and not name.startswith(IMPORTERS[library])
    ]
    assert intruders == []


def test_search_space_imports_the_standard_library_alone():
    known = {*sys.stdlib_module_names, "search_space"}
    foreign = {
        name: imports(path) - known
        for name, path in modules().items()
        if name.startswith("search_space") and imports(path) - known
    }
    assert foreign == {}


def loaded_after(statement: str) -> set[str]:
    """The modules that a fresh interpreter holds after ``statement``."""
    code = f"import sys\n{statement}\nprint(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return set(done.stdout.split())


def test_help_is_quick_to_import():
    loaded = loaded_after("from autosched.cli.main import main")
    assert loaded & {"torch", "triton", "xgboost", "sklearn", "numpy"} == set()


def test_what_tunes_leaves_torch_to_its_children():
    loaded = loaded_after("import autosched.assemble, measure.cuda_device, measure.model_device")
    assert loaded & {"torch", "triton", "xgboost", "sklearn"} == set()
