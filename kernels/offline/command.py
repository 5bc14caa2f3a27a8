"""The command ``hiprt compile``, which compiles kernels ahead of time for the device in use or for other GPUs."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path

from hiprt.code_cache import CodeCache
from hiprt.command import set_run
from hiprt.kernels.offline.builder import (
    BACKENDS,
    DEVICE,
    Backend,
    Product,
    RocmBackend,
    Unit,
    backend_of,
    build,
    units,
)
from hiprt.kernels.offline.report import Report
from hiprt.whole_file import whole_file

__all__ = ["add_arguments", "run"]

FAILURE = 1
METAL, AMD = "use --target metal", "use AMD targets, --target gfx1201,gfx942"
WHERE = {"report": AMD, "compare": AMD, "out": AMD, "emit": METAL, "option": AMD}


def add_arguments(parser: argparse.ArgumentParser, backends: Sequence[Backend] = BACKENDS) -> None:
    """Add the arguments of the command, which compiles for the targets of these backends."""
    parser.set_defaults(backends=backends)
    parser.add_argument(
        "files",
        metavar="FILE",
        nargs="*",
        type=Path,
        help="HIP source, or .metal bodies (default: hiprt's own kernels)",
    )
    parser.add_argument(
        "--target",
        metavar="LIST",
        type=names,
        default=[DEVICE],
        help="by comma: gfx1201, gfx942, ...; metal; cpu; default: the device in use, into its cache of compiled code",
    )
    parser.add_argument(
        "--report", action="store_true", help="registers, spills, occupancy and instructions of each kernel"
    )
    parser.add_argument("--compare", metavar="FILE", type=Path, help="fail where a kernel is worse than in this report")
    parser.add_argument("--out", metavar="DIR", type=Path, help="write results to DIR/<target>/<name>.co or .metal")
    parser.add_argument(
        "--rocm", metavar="DIR", type=Path, help="compile AMD targets with the hiprtc of the ROCm in a folder"
    )
    parser.add_argument("--emit", action="store_true", help="print the checked Metal text of each kernel")
    parser.add_argument("--option", metavar="O", action="append", default=[], help="for the compiler: --option=-DN=4")
    parser.add_argument("--cache-info", action="store_true", help="say what the cache of compiled kernels holds")
    parser.add_argument("--cache-limit", metavar="MB", type=megabytes, help="remove the longest unused of it; 0: all")
    set_run(parser, run)


def names(text: str) -> list[str]:
    """Parse targets that are separated by commas."""
    found = list(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    if not found:
        raise argparse.ArgumentTypeError("no target is named")
    return found


def megabytes(text: str) -> int:
    """Parse a number of MiB and return the bytes."""
    if not text.isdigit():
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of MiB")
    return int(text) << 20


def run(options: argparse.Namespace) -> int:
    """Compile, and print the result, as `compile_with` does, with the compilers that the options name."""
    if options.cache_info or options.cache_limit is not None:
        return run_cache(options)
    if not options.rocm:
        return compile_with(options, options.backends)
    rocm = RocmBackend(options.rocm)
    try:
        if not any(rocm.serves(target) for target in options.target):
            raise ValueError(f"--rocm has nothing for the targets {', '.join(options.target)}: {AMD}")
        return compile_with(options, (rocm, *options.backends))
    finally:
        rocm.compiler.close()


def compile_with(options: argparse.Namespace, backends: Sequence[Backend]) -> int:
    """Compile with these backends, and print the result.

    Raises
    ------
    ValueError
        A target is unknown, or does not serve an option.
    CompileError
        A program does not compile.
    ProviderError
        There is no compiler for a target.
    """
    asked = {name for name in WHERE if getattr(options, name)}
    for target in options.target:
        for name in sorted(asked - backend_of(target, backends).offers):
            raise ValueError(f"--{name} has nothing for the target {target}: {WHERE[name]}")
    before = Report.parse(options.compare.read_text()) if options.compare else None
    begin = time.monotonic()
    compilers = {target: backend_of(target, backends).open(target) for target in options.target}
    work = [(unit, target) for target in options.target for unit in chosen(options.files, backend_of(target, backends))]
    files: list[str] = []
    rows, texts = [], {}
    for product in shown(build(work, options.option, backends), len(work), is_silent=options.json):
        rows += product.resources
        if options.emit:
            texts.update({product.unit.name + suffix: text.decode() for suffix, text in product.files.items()})
        if options.out:
            files += write(product, options.out)
    report = Report(" and ".join(dict.fromkeys(compilers.values())), rows)
    worse = report.regressions(before.of(options.target)) if before else []
    seconds = round(time.monotonic() - begin, 1)
    if options.json:
        emitted = {"texts": dict(sorted(texts.items()))} if options.emit else {}
        print(json.dumps(summary(compilers, len(work), seconds, report, sorted(files), worse) | emitted))
    elif options.report:
        print(report, end="")
    elif options.emit:
        print("\n".join(f"// {name}\n{text}" for name, text in sorted(texts.items())), end="")
    else:
        is_cached = any(backend_of(target, backends).fills_cache for target in options.target)
        print(sentence(compilers, len(work), seconds, report, options.out, is_cached=is_cached))
    for line in worse:
        print(f"hiprt: {line}", file=sys.stderr)
    return FAILURE if worse else 0


def chosen(files: list[Path], backend: Backend) -> list[Unit]:
    """Return the programs that a backend is to compile."""
    return units(files, is_loops=backend.is_loops, dialect=backend.dialect)


def shown(products: Iterable[Product], count: int, *, is_silent: bool) -> Iterable[Product]:
    """Pass results on, and show a progress bar on a terminal."""
    if is_silent or not sys.stderr.isatty():
        yield from products
        return
    from rich.console import Console
    from rich.progress import track

    yield from track(products, "compiling", count, console=Console(stderr=True), transient=True)


def write(product: Product, folder: Path) -> list[str]:
    """Write the files of a result and return their paths. Each file is written whole or not at all."""
    made = []
    for suffix, content in product.files.items():
        path = folder / product.target.replace(":", "_") / (product.unit.name + suffix)
        path.parent.mkdir(parents=True, exist_ok=True)
        with whole_file(path) as fresh:
            fresh.write_bytes(content)
        made.append(str(path))
    return made


def summary(
    compilers: dict[str, str], count: int, seconds: float, report: Report, files: list[str], worse: list[str]
) -> dict[str, object]:
    """Return the object that ``--json`` prints."""
    return {
        "targets": compilers,
        "programs": count,
        "seconds": seconds,
        "kernels": [asdict(row) for row in report.rows],
        "files": files,
        "worse": worse,
    }


def sentence(
    compilers: dict[str, str], count: int, seconds: float, report: Report, folder: Path | None, *, is_cached: bool
) -> str:
    """Return the line that is printed without ``--json``."""
    programs = f"{count} program{'s' if count != 1 else ''}"
    where = f", in {folder}" if folder else ""
    if not report.rows:
        cache = f", into {CodeCache().folder}" if is_cached else ""
        return f"{programs} for {'; '.join(compilers.values())} in {seconds:.1f} s{cache}{where}"
    spilled = sum(row.spills > 0 for row in report.rows)
    spills = f"{spilled} spill" if spilled else "no spills"
    return f"{programs} for {', '.join(compilers)} in {seconds:.1f} s, {spills}{where} ({report.compiler})"


def run_cache(options: argparse.Namespace) -> int:
    """Print the size of the cache of compiled kernels, after trimming it if a limit is given."""
    cache = CodeCache()
    removed, freed = cache.trim(options.cache_limit) if options.cache_limit is not None else (0, 0)
    files, nbytes = cache.size()
    if options.json:
        report = {"dir": str(cache.folder), "files": files, "bytes": nbytes, "removed": removed, "freed": freed}
        print(json.dumps(report))
    else:
        gone = f"; removed {removed} files, {freed / 2**20:.1f} MiB" if removed else ""
        print(f"{cache.folder}: {files} files, {nbytes / 2**20:.1f} MiB{gone}")
    return 0
