/* Pointing what was launched last to memory that begins elsewhere, without a Python object for each value: the extension
 * module hiprt.graphs.native.pointing. Addresses are numbers, and where memory begins is a bytearray of uint64_t. */
#include "objects.h" /* first: Python.h says so */

#include "ladder_point.h"

/* Return where each memory of a table begins; NULL with an exception where there are other numbers of them. */
static const uint64_t *starts_of(PyObject *words, const hiprt_pointers *pointers) {
  const Py_ssize_t wanted = (Py_ssize_t)hiprt_pointers_memories(pointers) * (Py_ssize_t)sizeof(uint64_t);
  if (PyByteArray_Size(words) == wanted) return (const uint64_t *)(void *)PyByteArray_AsString(words);
  PyErr_SetString(PyExc_ValueError, "there is not one address for each memory");
  return 0;
}

/* may_move(pointers, words): whether memory that begins there is as it must be. */
static PyObject *may_move(PyObject *module, PyObject *args) {
  unsigned long long address;
  PyObject *words;
  if (!PyArg_ParseTuple(args, "KO!", &address, &PyByteArray_Type, &words)) return 0;
  const hiprt_pointers *pointers = (const hiprt_pointers *)(uintptr_t)address;
  const uint64_t *starts = starts_of(words, pointers);
  return starts ? PyBool_FromLong(hiprt_pointers_may_move(pointers, starts)) : 0;
}

/* point(ladder, exec, pointers, words, stream, rules): hiprt_ladder_point. Return None where nothing has been done,
 * since memory is not as it must be or another launch is needed, a status where it failed, and else the number of nodes that
 * were patched, why, the key, the seconds that it took, and the fields of an ArgumentDifference: the first node's number, its
 * name, and its first argument that differs, as a number, as it was and as it is, of which nothing is declared. */
static PyObject *point(PyObject *module, PyObject *args) {
  unsigned long long ladder, exec, table, stream, rules;
  PyObject *words;
  if (!PyArg_ParseTuple(args, "KKKO!KK", &ladder, &exec, &table, &PyByteArray_Type, &words, &stream, &rules)) return 0;
  hiprt_pointers *pointers = (hiprt_pointers *)(uintptr_t)table;
  const uint64_t *starts = starts_of(words, pointers);
  if (!starts) return 0;
  if (!hiprt_pointers_may_move(pointers, starts)) Py_RETURN_NONE;
  hiprt_choice choice;
  hiprt_pointed pointed;
  int status;
  Py_BEGIN_ALLOW_THREADS;
  status = hiprt_ladder_point((hiprt_ladder *)(uintptr_t)ladder, (hiprt_exec *)(uintptr_t)exec, pointers, starts,
                              (hiprt_stream *)(uintptr_t)stream, (const hiprt_rules *)(uintptr_t)rules, &choice, &pointed);
  Py_END_ALLOW_THREADS;
  if (status) return PyLong_FromLong(status);
  if (!choice.exec) Py_RETURN_NONE;
  const hiprt_difference *d = &pointed.shown;
  return Py_BuildValue("IsKd(IyIy#y#O)", choice.differing, choice.reason,
                       (unsigned long long)hiprt_recorder_key(hiprt_exec_recorder(choice.exec)), choice.seconds, choice.first,
                       d->name, d->argument, d->size ? d->was : "", (Py_ssize_t)d->size, d->size ? d->now : "",
                       (Py_ssize_t)d->size, Py_None);
}

PyMODINIT_FUNC PyInit_pointing(void) {
  static PyMethodDef methods[] = {{"may_move", may_move, METH_VARARGS, 0}, {"point", point, METH_VARARGS, 0}, {0}};
  static struct PyModuleDef definition = {
      PyModuleDef_HEAD_INIT, "hiprt.graphs.native.pointing", "Memory that begins elsewhere.", -1, methods, 0, 0, 0, 0,
  };
  return PyModule_Create(&definition);
}
