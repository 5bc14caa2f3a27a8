/* Moved calls: also the extension module hiprt.graphs.native.moved_call. */
#include "moved_call.h"

#include <string.h>

#include "budget.h"
#include "exec.h"
#include "seconds.h"
#include "stats.h"
#include "touches.h"

/* What Ladder.bounds returns, and what of a Move (graphs/launch/moved_arrays.py) is read here. */
enum { LOCK, STATS, PLACEMENTS, LADDER, RULES };
enum { NODES, BYTES, RANGES, EVENT };
/* Names of attributes and methods. */
enum { ACQUIRE, RELEASE, ARRAYS, HERE, SEEN, MOVES, PATCHED, NAMES };
static PyObject *names[NAMES];

static int name_all(void) {
  static const char *const texts[NAMES] = {"acquire", "release", "arrays", "here", "seen", "moves", "patched"};
  for (int i = 0; i < NAMES; i++)
    if (!names[i] && !(names[i] = PyUnicode_InternFromString(texts[i]))) return -1;
  return 0;
}

/* Return the addresses of arguments that are arrays of the forms that these have, as the bytes of 64-bit words; NULL if
 * they are not, or with an exception. */
static PyObject *addresses_of(PyObject *arrays, PyObject *args) {
  const Py_ssize_t n = PyTuple_Size(args), size = sizeof(uint64_t);
  if (PyList_Size(arrays) != n) return 0;
  PyObject *addresses = PyBytes_FromStringAndSize(0, n * size);
  for (Py_ssize_t i = 0; addresses && i < n; i++) {
    PyObject *its = PyTuple_GetItem(args, i), *mine = PyList_GetItem(arrays, i), *form = 0, *wanted = 0;
    const int is_array = PyObject_TypeCheck(its, hiprt_py_array_type);
    if (is_array && (form = hiprt_py_form((hiprt_py_array *)its))) wanted = hiprt_py_form((hiprt_py_array *)mine);
    const int is_alike = form && form == wanted;
    Py_XDECREF(form);
    Py_XDECREF(wanted);
    const uint64_t address = is_alike ? ((hiprt_py_array *)its)->address : 0;
    if (is_alike)
      memcpy(PyBytes_AsString(addresses) + i * size, &address, sizeof address);
    else
      Py_CLEAR(addresses);
  }
  return addresses;
}

static PyObject *list_of(PyObject *args) {
  const Py_ssize_t n = PyTuple_Size(args);
  PyObject *list = PyList_New(n);
  for (Py_ssize_t i = 0; list && i < n; i++) PyList_SetItem(list, i, Py_NewRef(PyTuple_GetItem(args, i)));
  return list;
}

/* Take the ladder's lock if nobody has it. */
static int take(PyObject *lock) {
  PyObject *answer = PyObject_CallMethodObjArgs(lock, names[ACQUIRE], Py_False, NULL);
  Py_XDECREF(answer);
  return answer == Py_True;
}

int hiprt_py_begin_moved(hiprt_py_moved *call, PyObject *moves, PyObject *args) {
  *call = (hiprt_py_moved){0};
  PyObject *placements = PyTuple_GetItem(moves, PLACEMENTS);
  PyObject *arrays = name_all() ? 0 : PyObject_GetAttr(placements, names[ARRAYS]);
  call->addresses = arrays ? addresses_of(arrays, args) : 0;
  Py_XDECREF(arrays);
  call->arrays = call->addresses ? list_of(args) : 0;
  /* From here on nothing is made that could run other code before the exec is launched. */
  if (call->arrays && take(PyTuple_GetItem(moves, LOCK))) call->moves = Py_NewRef(moves);
  if (!call->moves) PyErr_Clear();
  return call->moves != 0;
}

/* Find the Move from where the exec's arrays lie to where those of the call do. */
static void find_move(hiprt_py_moved *call) {
  PyObject *placements = PyTuple_GetItem(call->moves, PLACEMENTS), *seen = PyObject_GetAttr(placements, names[SEEN]);
  call->target = seen ? Py_XNewRef(PyDict_GetItemWithError(seen, call->addresses)) : 0;
  Py_XDECREF(seen);
  PyObject *moves = call->target ? PyObject_GetAttr(call->target, names[MOVES]) : 0;
  PyObject *here = moves ? PyObject_GetAttr(placements, names[HERE]) : 0;
  call->move = here ? Py_XNewRef(PyDict_GetItemWithError(moves, here)) : 0;
  Py_XDECREF(moves);
  Py_XDECREF(here);
}

/* See to it that what works with the memory of all arrays is known. */
static int know_uses(PyObject *arrays) {
  for (Py_ssize_t i = 0; i < PyList_Size(arrays); i++)
    if (!hiprt_py_uses((hiprt_py_buffer *)((hiprt_py_array *)PyList_GetItem(arrays, i))->buffer)) return -1;
  return 0;
}

/* Note whose memory a recorder's nodes use through the arguments that were set apart. */
static void retouch_all(hiprt_recorder *recorder, PyObject *arrays) {
  for (Py_ssize_t i = 0; i < PyList_Size(arrays); i++)
    hiprt_recorder_retouch(recorder, (uint32_t)i,
                           ((hiprt_py_buffer *)((hiprt_py_array *)PyList_GetItem(arrays, i))->buffer)->uses);
}

int hiprt_py_may_move(hiprt_py_moved *call, hiprt_exec *exec) {
  hiprt_recorder *recorder = hiprt_exec_recorder(exec);
  find_move(call);
  const int is_known = call->move && hiprt_recorder_apart(recorder) == (uint32_t)PyList_Size(call->arrays);
  if (!is_known || hiprt_exec_hold(exec, 0) != 1 || know_uses(call->arrays)) {
    PyErr_Clear();
    return 0;
  }
  PyObject *nodes = PyTuple_GetItem(call->move, NODES), *ranges = PyTuple_GetItem(call->move, RANGES);
  call->nodes = (const uint32_t *)PyBytes_AsString(nodes);
  call->n_nodes = (uint32_t)((size_t)PyBytes_Size(nodes) / sizeof *call->nodes);
  call->ranges = (const hiprt_move *)PyBytes_AsString(ranges);
  call->n_ranges = (uint32_t)((size_t)PyBytes_Size(ranges) / sizeof *call->ranges);
  call->bytes = PyLong_AsUnsignedLongLong(PyTuple_GetItem(call->move, BYTES));
  call->ladder = PyLong_AsVoidPtr(PyTuple_GetItem(call->moves, LADDER));
  call->rules = PyLong_AsVoidPtr(PyTuple_GetItem(call->moves, RULES));
  const double used = hiprt_budget_used(call->rules, hiprt_exec_updated_nodes(exec), hiprt_exec_updated_bytes(exec),
                                        call->n_nodes, call->bytes);
  if (used < 0 || used > 1) return 0; /* Python takes a successor */
  retouch_all(recorder, call->arrays);
  return 1;
}

int hiprt_py_move(hiprt_py_moved *call, hiprt_exec *exec) {
  const double start = hiprt_seconds();
  hiprt_exec *moved;
  const int status = hiprt_ladder_move(call->ladder, exec, call->rules, call->n_nodes, call->nodes, call->bytes,
                                       call->n_ranges, call->ranges, &moved);
  call->seconds = hiprt_seconds() - start;
  return status;
}

void hiprt_py_carry(hiprt_py_moved *call) {
  PyObject *placements = PyTuple_GetItem(call->moves, PLACEMENTS);
  call->gone[0] = PyObject_GetAttr(placements, names[ARRAYS]);
  call->gone[1] = PyObject_GetAttr(placements, names[HERE]);
  if (PyObject_SetAttr(placements, names[ARRAYS], call->arrays) || PyObject_SetAttr(placements, names[HERE], call->target))
    PyErr_WriteUnraisable(placements);
}

void hiprt_py_count_moved(hiprt_py_moved *call) {
  PyObject *type, *value, *trace, *stats = PyTuple_GetItem(call->moves, STATS);
  PyErr_Fetch(&type, &value, &trace);
  PyObject *event = hiprt_py_timed_event(PyTuple_GetItem(call->move, EVENT), call->seconds);
  /* The call has run: where memory runs out, it is not counted. */
  if (!event || hiprt_py_add_to(stats, names[PATCHED], call->n_nodes) || hiprt_py_count(stats, event, Py_None))
    PyErr_Clear();
  Py_XDECREF(event);
  PyErr_Restore(type, value, trace);
}

void hiprt_py_end_moved(hiprt_py_moved *call) {
  PyObject *type, *value, *trace;
  PyErr_Fetch(&type, &value, &trace);
  PyObject *released = call->moves ? PyObject_CallMethodObjArgs(PyTuple_GetItem(call->moves, LOCK), names[RELEASE], NULL) : 0;
  if (call->moves && !released) PyErr_WriteUnraisable(call->moves);
  Py_XDECREF(released);
  Py_XDECREF(call->moves);
  Py_XDECREF(call->arrays);
  Py_XDECREF(call->addresses);
  Py_XDECREF(call->target);
  Py_XDECREF(call->move);
  for (int i = 0; i < 3; i++) Py_XDECREF(call->gone[i]);
  PyErr_Restore(type, value, trace);
}

/* placed(arrays, args): the addresses of arguments that are arrays of the forms that these have, as the bytes of 64-bit words;
 * None if they are not. */
static PyObject *placed(PyObject *module, PyObject *given) {
  PyObject *arrays, *args;
  if (!PyArg_ParseTuple(given, "O!O!", &PyList_Type, &arrays, &PyTuple_Type, &args)) return 0;
  PyObject *addresses = addresses_of(arrays, args);
  return addresses || PyErr_Occurred() ? addresses : Py_NewRef(Py_None);
}

/* retouch(exec, arrays): note whose memory an exec uses through its arguments now; False if that was not set apart. */
static PyObject *retouch(PyObject *module, PyObject *args) {
  unsigned long long exec;
  PyObject *arrays;
  if (!PyArg_ParseTuple(args, "KO!", &exec, &PyList_Type, &arrays)) return 0;
  hiprt_recorder *recorder = hiprt_exec_recorder((hiprt_exec *)(uintptr_t)exec);
  const Py_ssize_t count = PyList_Size(arrays);
  for (Py_ssize_t i = 0; i < count; i++)
    if (!PyObject_TypeCheck(PyList_GetItem(arrays, i), hiprt_py_array_type))
      return PyErr_Format(PyExc_TypeError, "%R is no array", PyList_GetItem(arrays, i));
  if (hiprt_recorder_apart(recorder) != (size_t)count) Py_RETURN_FALSE;
  if (know_uses(arrays)) return 0;
  retouch_all(recorder, arrays);
  Py_RETURN_TRUE;
}

PyMODINIT_FUNC PyInit_moved_call(void) {
  static PyMethodDef functions[] = {
      {"retouch", retouch, METH_VARARGS, 0}, {"placed", placed, METH_VARARGS, 0}, {0}};
  static struct PyModuleDef definition = {
      PyModuleDef_HEAD_INIT, "hiprt.graphs.native.moved_call", "Calls with moved arrays.", -1, functions, 0, 0, 0, 0,
  };
  return PyModule_Create(&definition);
}
