"""What the C core calls of Python: nothing that a later Python declares deprecated, where the build would fail."""

import re

import pytest

from hiprt.native import build

# Py_DEPRECATED in the headers of CPython 3.14, as far as the limited API has it.
DEPRECATED = (
    "PyEval_InitThreads PyImport_ImportModuleNoBlock PyModule_GetFilename PyOS_AfterFork PyWeakref_GetObject "
    "Py_FileSystemDefaultEncodeErrors Py_FileSystemDefaultEncoding Py_GetExecPrefix Py_GetPath Py_GetPrefix "
    "Py_GetProgramFullPath Py_GetProgramName Py_GetPythonHome Py_HasFileSystemDefaultEncoding Py_SetProgramName "
    "Py_SetPythonHome Py_UTF8Mode"
).split()
ALLOWED = re.compile(r"#pragma GCC diagnostic push\n(.*?)#pragma GCC diagnostic pop\n", re.DOTALL)


@pytest.mark.parametrize("folder", build.CORE_FOLDERS, ids=lambda folder: str(folder.relative_to(build.ROOT)))
def test_nothing_deprecated_is_called(folder):
    texts = {file.name: ALLOWED.sub("", file.read_text()) for file in folder.glob("*.[ch]")}
    names = {name: sorted(set(re.findall(r"\bPy\w+", text)) & set(DEPRECATED)) for name, text in texts.items()}
    assert {name: found for name, found in names.items() if found} == {}
