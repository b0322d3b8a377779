"""The size of the code: modules, code lines, public names, what a search imports, tests and docs.

    python -m benchmarks.code_size

Code lines are lines without blanks, comments and docstrings.
"""

import ast
import statistics
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = "tour_pyserini"

_IMPORTED = f"""
import sys
from {PACKAGE}.search import main
try:
    main(["--topics", "demo", "--index", "none"])
except Exception:
    pass
print(sum(name.startswith("{PACKAGE}.") for name in sys.modules))
"""


def code_lines(path: Path) -> int:
    """Lines of a file without blanks, comments and docstrings."""
    text = path.read_text(encoding="utf-8")
    strings: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            strings.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    lines = enumerate(text.splitlines(), start=1)
    return sum(bool(line.strip()) and not line.strip().startswith("#") and n not in strings for n, line in lines)


def public_names(path: Path) -> int:
    """Functions and classes at the top level of a file whose names do not begin with an underscore."""
    kinds = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
    body = ast.parse(path.read_text(encoding="utf-8")).body
    return sum(isinstance(node, kinds) and not node.name.startswith("_") for node in body)


def functions(path: Path) -> Iterator[tuple[int, str]]:
    """Length in lines, without the docstring, and place of each function of a file."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef):
            said = node.body[0] if ast.get_docstring(node) else None
            docstring = (said.end_lineno or 0) - said.lineno + 1 if said else 0
            length = (node.end_lineno or node.lineno) - node.lineno + 1 - docstring
            yield length, f"{path.relative_to(ROOT)}:{node.name}"


def main() -> None:
    """Print the figures."""
    modules = sorted((ROOT / PACKAGE).rglob("*.py"))
    sizes = {path: code_lines(path) for path in modules}
    rooms: dict[str, list[int]] = {}
    for path, size in sizes.items():
        rooms.setdefault(path.relative_to(ROOT / PACKAGE).parts[0].removesuffix(".py"), []).append(size)
    out = sys.stdout.write
    for room, lines in rooms.items():
        if len(lines) > 1:
            out(f"{room:15} {len(lines):4} modules {sum(lines):6} code lines\n")
    commands = [lines[0] for lines in rooms.values() if len(lines) == 1]
    out(f"{'top level':15} {len(commands):4} modules {sum(commands):6} code lines\n")
    imported = subprocess.run([sys.executable, "-c", _IMPORTED], cwd=ROOT, capture_output=True, text=True, check=True)
    longest = max(one for path in (ROOT / PACKAGE / "core").rglob("*.py") for one in functions(path))
    tests = sum(len(path.read_text(encoding="utf-8").splitlines()) for path in (ROOT / "tests").rglob("*.py"))
    docs = sum(len(path.read_text(encoding="utf-8").split()) for path in (ROOT / "docs").glob("*.md"))
    out(
        f"\n{len(modules)} modules, {sum(sizes.values())} code lines (median {statistics.median(sizes.values()):.0f}), "
        f"{sum(map(public_names, modules))} public names\n"
        f"{imported.stdout.strip()} own modules are imported by a search\n"
        f"longest function of core: {longest[1]}, {longest[0]} lines\n"
        f"{tests} lines of tests, {docs} words of docs, "
        f"README {len((ROOT / 'README.md').read_text(encoding='utf-8').splitlines())} lines\n"
    )


if __name__ == "__main__":
    main()
