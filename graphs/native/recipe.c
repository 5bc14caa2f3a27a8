/* Recipes as Python objects: what graphs/trace/recipes/record.py says of one is read into C's structures.
 *
 * This is the extension module hiprt.graphs.native.recipe. */
#include "recipe_object.h" /* first: Python.h says so */

#include "primitive.h"
#include "recipe_pattern.h"
#include "recipe_use.h"

/* Read the nodes: tuples of the kind, the object, and two more; see hiprt_py_pattern. */
static int read_nodes(hiprt_py_recipe *self, PyObject *nodes) {
  self->node_count = PyTuple_Size(nodes);
  if (!(self->nodes = PyMem_Calloc((size_t)self->node_count + 1, sizeof *self->nodes))) return PyErr_NoMemory(), -1;
  for (Py_ssize_t i = 0; i < self->node_count; i++) {
    hiprt_py_pattern *n = &self->nodes[i];
    PyObject *first, *second;
    if (!PyArg_ParseTuple(PyTuple_GetItem(nodes, i), "iOOO", &n->kind, &n->object, &first, &second)) return -1;
    if (n->kind == HIPRT_PY_DICT || n->kind == HIPRT_PY_OBJECT) n->own = first;
    if (n->kind == HIPRT_PY_OBJECT) n->attributes = second;
    if (n->kind == HIPRT_PY_LIST || n->kind == HIPRT_PY_TUPLE || n->kind == HIPRT_PY_AGAIN || n->kind == HIPRT_PY_ARRAY)
      n->count = PyLong_AsSsize_t(first);
    if (n->kind == HIPRT_PY_ARRAY) n->is_grown = PyObject_IsTrue(second);
    self->array_count += n->kind == HIPRT_PY_ARRAY;
    self->integer_count += n->kind == HIPRT_PY_INTEGER;
  }
  return PyErr_Occurred() ? -1 : 0;
}

/* Read the sums: tuples of the constant, the test, and pairs of a slot and its factor. */
static int read_sums(hiprt_py_recipe *self, PyObject *sums) {
  Py_ssize_t terms = 0;
  self->sum_count = PyTuple_Size(sums);
  for (Py_ssize_t i = 0; i < self->sum_count; i++) terms += PyTuple_Size(PyTuple_GetItem(PyTuple_GetItem(sums, i), 2));
  self->sums = PyMem_Calloc((size_t)self->sum_count + 1, sizeof *self->sums);
  self->terms = PyMem_Calloc((size_t)terms + 1, sizeof *self->terms);
  if (!self->sums || !self->terms) return PyErr_NoMemory(), -1;
  terms = 0;
  for (Py_ssize_t i = 0; i < self->sum_count; i++) {
    hiprt_py_sum *s = &self->sums[i];
    PyObject *parts;
    if (!PyArg_ParseTuple(PyTuple_GetItem(sums, i), "LiO!", &s->constant, &s->test, &PyTuple_Type, &parts)) return -1;
    s->first = terms;
    s->count = PyTuple_Size(parts);
    for (Py_ssize_t j = 0; j < s->count; j++) {
      hiprt_py_term *t = &self->terms[terms++];
      if (!PyArg_ParseTuple(PyTuple_GetItem(parts, j), "nL", &t->slot, &t->times)) return -1;
      if (t->slot < 0 || t->slot >= self->integer_count) return PyErr_Format(PyExc_IndexError, "there is no such integer"), -1;
    }
  }
  return 0;
}

/* Read the roles of the arrays. */
static int read_roles(hiprt_py_recipe *self, PyObject *roles) {
  self->roles = PyMem_Calloc((size_t)self->array_count + 1, 1);
  self->last = PyMem_Calloc((size_t)self->array_count + 1, sizeof *self->last);
  if (!self->roles || !self->last) return PyErr_NoMemory(), -1;
  if (PyTuple_Size(roles) != self->array_count) return PyErr_Format(PyExc_ValueError, "each array has a role"), -1;
  for (Py_ssize_t i = 0; i < self->array_count; i++) self->roles[i] = (char)hiprt_py_number_at(roles, i);
  return 0;
}

/* Recipe(nodes, sums, how many of them are tests, position, constants, positions, calls, fresh, changed, writes, result,
 * roles, joint, outputs): `fresh` has the places of the values of new arrays, `changed` pairs of an array's number and its
 * new value's place, `roles` a number for each array. `joint` is the rule of a call that stands for all, with a fourth part
 * that says which results are caches of which a part was written, or None; `outputs` has the places of its results. */
static PyObject *make(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
  allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
  PyObject *nodes, *sums, *position, *roles, *joint, *t[8];
  Py_ssize_t tests;
  if (!PyArg_ParseTuple(args, "O!O!nOO!O!O!O!O!O!O!O!OO!", &PyTuple_Type, &nodes, &PyTuple_Type, &sums, &tests, &position,
                        &PyTuple_Type, &t[0], &PyTuple_Type, &t[1], &PyTuple_Type, &t[2], &PyTuple_Type, &t[3],
                        &PyTuple_Type, &t[4], &PyTuple_Type, &t[5], &PyTuple_Type, &t[6], &PyTuple_Type, &roles, &joint,
                        &PyTuple_Type, &t[7]))
    return 0;
  hiprt_py_recipe *self = (hiprt_py_recipe *)allocate(type, 0);
  if (!self) return 0;
  self->keep = Py_NewRef(nodes);
  self->position = Py_NewRef(position);
  PyObject **parts[] = {&self->constants, &self->positions, &self->calls, &self->fresh,
                        &self->changed,   &self->writes,    &self->result, &self->outputs};
  for (int i = 0; i < 8; i++) *parts[i] = Py_NewRef(t[i]);
  self->joint = Py_NewRef(joint);
  self->test_count = tests;
  int status = read_nodes(self, nodes) || read_sums(self, sums) || tests > self->sum_count || read_roles(self, roles);
  self->value_count = self->array_count + PyTuple_Size(self->constants) + PyTuple_Size(self->positions);
  for (Py_ssize_t i = 0; !status && i < PyTuple_Size(self->calls); i++)
    self->value_count += PyTuple_Size(PyTuple_GetItem(PyTuple_GetItem(PyTuple_GetItem(self->calls, i), 1), 1));
  if (!status) return (PyObject *)self;
  Py_DECREF((PyObject *)self);
  return 0;
}

static int traverse(PyObject *object, visitproc visit, void *arg) {
  hiprt_py_recipe *self = (hiprt_py_recipe *)object;
  Py_VISIT(Py_TYPE(object));
  Py_VISIT(self->keep);
  Py_VISIT(self->position);
  Py_VISIT(self->constants);
  Py_VISIT(self->positions);
  Py_VISIT(self->calls);
  Py_VISIT(self->fresh);
  Py_VISIT(self->changed);
  Py_VISIT(self->writes);
  Py_VISIT(self->result);
  Py_VISIT(self->joint);
  Py_VISIT(self->outputs);
  return 0;
}

static int clear(PyObject *object) {
  hiprt_py_recipe *self = (hiprt_py_recipe *)object;
  PyMem_Free(self->nodes);
  self->nodes = 0; /* they point to what is let go of */
  Py_CLEAR(self->keep);
  Py_CLEAR(self->position);
  Py_CLEAR(self->constants);
  Py_CLEAR(self->positions);
  Py_CLEAR(self->calls);
  Py_CLEAR(self->fresh);
  Py_CLEAR(self->changed);
  Py_CLEAR(self->writes);
  Py_CLEAR(self->result);
  Py_CLEAR(self->joint);
  Py_CLEAR(self->outputs);
  return 0;
}

static void dealloc(PyObject *object) {
  hiprt_py_recipe *self = (hiprt_py_recipe *)object;
  PyObject_GC_UnTrack(object);
  clear(object);
  PyMem_Free(self->sums);
  PyMem_Free(self->terms);
  PyMem_Free(self->roles);
  PyMem_Free(self->last);
  hiprt_py_free(object);
}

/* numbered(): a number that is larger than those of all values. */
static PyObject *numbered(PyObject *module, PyObject *unused) { return PyLong_FromUnsignedLongLong(hiprt_py_numbered(0)); }

/* Whether two trees of tuples are alike: leaves that are neither one object nor the same number or text must satisfy
 * is_alike(one, other). -1 with an exception. */
static int alike(PyObject *a, PyObject *b, PyObject *is_alike) {
  if (a == b) return 1;
  if (Py_TYPE(a) != Py_TYPE(b)) return 0;
  if (!PyTuple_CheckExact(a)) {
    if (hiprt_py_is_same(a, b) == 1) return 1;
    PyObject *answer = PyObject_CallFunctionObjArgs(is_alike, a, b, NULL);
    const int found = answer ? PyObject_IsTrue(answer) : -1;
    Py_XDECREF(answer);
    return found;
  }
  if (PyTuple_Size(a) != PyTuple_Size(b)) return 0;
  if (Py_EnterRecursiveCall(" in a comparison of recordings")) return -1;
  int found = 1;
  for (Py_ssize_t i = 0; found == 1 && i < PyTuple_Size(a); i++)
    found = alike(PyTuple_GetItem(a, i), PyTuple_GetItem(b, i), is_alike);
  Py_LeaveRecursiveCall();
  return found;
}

/* alike(a, b, is_alike): whether two trees of tuples have leaves that are alike. */
static PyObject *are_alike(PyObject *module, PyObject *args) {
  PyObject *a, *b, *is_alike;
  if (!PyArg_ParseTuple(args, "OOO", &a, &b, &is_alike)) return 0;
  const int found = alike(a, b, is_alike);
  return found < 0 ? 0 : PyBool_FromLong(found);
}

PyMODINIT_FUNC PyInit_recipe(void) {
  static PyMethodDef functions[] = {{"numbered", numbered, METH_NOARGS, 0}, {"alike", are_alike, METH_VARARGS, 0}, {0}};
  static PyMethodDef methods[] = {{"take", hiprt_py_take, METH_O, 0},
                                  {"values", hiprt_py_values, METH_O, 0},
                                  {"expand", hiprt_py_expand, METH_O, 0},
                                  {0}};
  static PyType_Slot slots[] = {
      {Py_tp_new, (void *)make},          {Py_tp_dealloc, (void *)dealloc}, {Py_tp_traverse, (void *)traverse},
      {Py_tp_clear, (void *)clear},       {Py_tp_methods, methods},         {0, 0},
  };
  static PyType_Spec spec = {"hiprt.graphs.native.recipe.Recipe", sizeof(hiprt_py_recipe), 0,
                             Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC, slots};
  static struct PyModuleDef definition = {
      PyModuleDef_HEAD_INIT, "hiprt.graphs.native.recipe", "Recipes.", -1, functions, 0, 0, 0, 0,
  };
  PyObject *module = PyModule_Create(&definition);
  PyObject *type = module ? PyType_FromSpec(&spec) : 0;
  if (!type || PyModule_AddObject(module, "Recipe", type)) Py_CLEAR(module);
  return module;
}
