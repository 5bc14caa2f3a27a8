/* Cuts of a graph of values: the primitives that make what is asked for, and a key of their structure.
 *
 * A trace that does not keep its primitives makes a graph: a value holds its primitive, and that its inputs. A **leaf**
 * is a value that holds an array in memory instead. A cut has the primitives between leaves and what is asked for. Two
 * cuts have one key only if their programs are the same, but for the arrays in memory.
 *
 * This is the extension module hiprt.graphs.native.cut. */
#include "primitive.h" /* first: Python.h says so */

#include <stdlib.h>
#include <string.h>

/* What is known of an object of the graph, by its address. */
typedef struct {
  const void *object; /* NULL: the entry is free */
  uint32_t at;        /* a primitive: its place in the cut; a leaf: its number */
  uint32_t uses;      /* a value: how often primitives of the cut use it; a primitive: how many results are seen */
} entry;

typedef struct {
  entry *entries;
  size_t room, count; /* room is a power of two */
} table;

typedef struct {
  table values, primitives;
  hiprt_py_primitive **order; /* borrowed */
  PyObject **seen, **leaves;  /* all values, and those that are leaves, once each; borrowed */
  uint64_t *key;
  size_t order_count, order_room, seen_count, seen_room, leaf_count, leaf_room, key_count, key_room;
} cutting;

static size_t slot_of(const table *t, const void *object) {
  size_t at = (size_t)((uintptr_t)object >> 4) * 0x9e3779b97f4a7c15ull >> 20;
  for (;; at++) {
    const entry *each = &t->entries[at & (t->room - 1)];
    if (!each->object || each->object == object) return at & (t->room - 1);
  }
}

/* Return the entry of an object, which is made if there is none; NULL without memory. */
static entry *entry_of(table *t, const void *object, int *is_new) {
  if (2 * t->count >= t->room) {
    table wider = {calloc(t->room ? 4 * t->room : 256, sizeof(entry)), t->room ? 4 * t->room : 256, t->count};
    if (!wider.entries) return 0;
    for (size_t i = 0; i < t->room; i++)
      if (t->entries[i].object) wider.entries[slot_of(&wider, t->entries[i].object)] = t->entries[i];
    free(t->entries);
    *t = wider;
  }
  entry *found = &t->entries[slot_of(t, object)];
  *is_new = !found->object;
  t->count += (size_t)*is_new;
  found->object = object;
  return found;
}

/* Return the entry of an object that has one. */
static entry *known_entry(const table *t, const void *object) { return &t->entries[slot_of(t, object)]; }

/* Return the room behind the items of a list, wider if it was full; NULL without memory. */
static void *pushed(void **items, size_t count, size_t *room, size_t width) {
  if (count == *room) {
    const size_t wider = *room ? 2 * *room : 256;
    void *moved = realloc(*items, wider * width);
    if (!moved) return 0;
    *items = moved;
    *room = wider;
  }
  return (char *)*items + count * width;
}

static hiprt_py_primitive *maker_of(PyObject *value) {
  return (hiprt_py_primitive *)((hiprt_py_array *)value)->primitive;
}

static int is_leaf(PyObject *value) {
  const hiprt_py_primitive *maker = maker_of(value);
  return !maker || maker->op == Py_None;
}

/* Whether a leaf stands for an argument of a function that is traced, and holds nothing; with an exception then. */
static int is_argument(PyObject *leaf) {
  const hiprt_py_primitive *maker = maker_of(leaf);
  if (PyTuple_Size(maker->arguments)) return 0;
  PyErr_SetString(PyExc_ValueError, "[eval] Attempting to eval an array during function transformations like compile or vmap "
                                    "is not allowed. What a compiled function computes has no contents while it is traced: "
                                    "return the array and read it outside.");
  return 1;
}

/* Note a value once: among the leaves, or with its primitive among those to visit. */
static int note(cutting *c, PyObject *value, uint32_t uses) {
  int is_new;
  if (!maker_of(value)) return 0;
  entry *found = entry_of(&c->values, value, &is_new);
  if (!found) return -1;
  found->uses += uses;
  if (!is_new) return 0;
  PyObject **seen = pushed((void **)&c->seen, c->seen_count, &c->seen_room, sizeof *c->seen);
  if (!seen) return -1;
  *seen = value;
  c->seen_count++;
  if (is_leaf(value)) {
    if (is_argument(value)) return -1;
    PyObject **leaf = pushed((void **)&c->leaves, c->leaf_count, &c->leaf_room, sizeof *c->leaves);
    if (!leaf) return -1;
    *leaf = value;
    c->leaf_count++;
    return 0;
  }
  hiprt_py_primitive *maker = maker_of(value);
  entry *made = entry_of(&c->primitives, maker, &is_new);
  if (!made) return -1;
  made->uses++;
  if (!is_new) return 0;
  hiprt_py_primitive **last = pushed((void **)&c->order, c->order_count, &c->order_room, sizeof *c->order);
  if (!last) return -1;
  *last = maker;
  c->order_count++;
  return 0;
}

static int by_number(const void *a, const void *b) {
  const uint64_t left = (*(hiprt_py_primitive *const *)a)->number, right = (*(hiprt_py_primitive *const *)b)->number;
  return left < right ? -1 : left > right;
}

static int put(cutting *c, uint64_t word) {
  uint64_t *last = pushed((void **)&c->key, c->key_count, &c->key_room, sizeof *c->key);
  if (!last) return -1;
  *last = word;
  c->key_count++;
  return 0;
}

/* Return what stands for a value in the key: the number of a leaf, or the place of its primitive and which result. An
 * array in memory is a constant of the program, named by its address. */
static uint64_t word_of(cutting *c, PyObject *value) {
  if (!maker_of(value)) return (uint64_t)(uintptr_t)value;
  if (is_leaf(value)) return (uint64_t)known_entry(&c->values, value)->at << 1 | 1;
  const hiprt_py_primitive *maker = maker_of(value);
  const uint64_t place = known_entry(&c->primitives, maker)->at;
  return (place << 16 | (((hiprt_py_array *)value)->number - maker->number)) << 1;
}

/* Whether something outside of the cut may need a value later: what asks for it, another value's primitive, a name. */
static int is_needed(cutting *c, PyObject *value) {
  const entry *found = known_entry(&c->values, value);
  return Py_REFCNT(value) > 2 * (Py_ssize_t)found->uses; /* each use: once in the inputs, once in the arguments */
}

/* Whether a program may write over a leaf's memory: nothing but the cut holds the leaf, and no other leaf shows it. */
static int is_dead(cutting *c, PyObject *leaf) {
  const hiprt_py_primitive *maker = maker_of(leaf);
  if (PyTuple_Size(maker->arguments) != 1 || is_needed(c, leaf)) return 0;
  const hiprt_py_array *array = (hiprt_py_array *)PyTuple_GetItem(maker->arguments, 0);
  const hiprt_py_buffer *buffer = (hiprt_py_buffer *)array->buffer;
  return Py_REFCNT((PyObject *)maker) == 1 && buffer->leaves == 1 && !buffer->is_readonly;
}

/* Fill the cut: visit what the values depend on, order it, and write the key, but for the results. */
static int fill(cutting *c, PyObject *values) {
  const Py_ssize_t count = PyList_Size(values);
  for (Py_ssize_t i = 0; i < count; i++) {
    PyObject *value = PyList_GetItem(values, i);
    if (is_leaf(value) ? maker_of(value) && is_argument(value) : note(c, value, 0)) return -1;
  }
  for (size_t i = 0; i < c->order_count; i++) {
    PyObject *inputs = c->order[i]->inputs;
    for (Py_ssize_t j = 0; j < PyTuple_Size(inputs); j++)
      if (note(c, PyTuple_GetItem(inputs, j), 1)) return -1;
    /* Other results of the same call that are alive: a state that only the next token reads. */
    PyObject *results = c->order[i]->results;
    for (Py_ssize_t j = 0; results && j < PyTuple_Size(results); j++) {
      PyObject *reference = PyTuple_GetItem(results, j);
      PyObject *value = reference == Py_None ? Py_None : hiprt_py_referred(reference);
      if (value != Py_None && maker_of(value) == c->order[i] && note(c, value, 0)) return -1;
    }
  }
  if (c->order_count) qsort(c->order, c->order_count, sizeof *c->order, by_number);
  for (size_t i = 0; i < c->order_count; i++) known_entry(&c->primitives, c->order[i])->at = (uint32_t)i;
  /* Leaves are numbered in the order in which primitives use them. */
  c->leaf_count = 0;
  for (size_t i = 0; i < c->order_count; i++) {
    PyObject *inputs = c->order[i]->inputs;
    if (put(c, (uint64_t)(uintptr_t)c->order[i]->rule)) return -1;
    if (c->order[i]->stamp && put(c, c->order[i]->stamp)) return -1;
    for (Py_ssize_t j = 0; j < PyTuple_Size(inputs); j++) {
      PyObject *value = PyTuple_GetItem(inputs, j);
      if (maker_of(value) && is_leaf(value)) {
        entry *found = known_entry(&c->values, value);
        if (found->at == 0) {
          c->leaves[c->leaf_count++] = value;
          found->at = (uint32_t)c->leaf_count;
        }
      }
      if (put(c, word_of(c, value))) return -1;
    }
  }
  return 0;
}

static PyObject *list_of(PyObject *const *items, size_t count) {
  PyObject *list = PyList_New((Py_ssize_t)count);
  for (size_t i = 0; list && i < count; i++) PyList_SetItem(list, (Py_ssize_t)i, Py_NewRef(items[i]));
  return list;
}

/* Return the values that the program must return: those asked for, and those that something else needs. */
static PyObject *results_of(cutting *c, PyObject *values) {
  PyObject *results = PyList_New(0);
  for (Py_ssize_t i = 0; results && i < PyList_Size(values); i++) {
    PyObject *value = PyList_GetItem(values, i);
    if (!is_leaf(value)) known_entry(&c->values, value)->at = 1; /* it is needed however few hold it */
  }
  for (size_t i = 0; i < c->order_count; i++) {
    entry *found = known_entry(&c->primitives, c->order[i]);
    if ((Py_ssize_t)found->uses == Py_REFCNT((PyObject *)c->order[i])) continue;
    /* A result that the cut has not seen is alive. Its primitive is called again for it, with the same inputs. */
    PyObject *inputs = c->order[i]->inputs;
    for (Py_ssize_t j = 0; j < PyTuple_Size(inputs); j++)
      if (maker_of(PyTuple_GetItem(inputs, j))) known_entry(&c->values, PyTuple_GetItem(inputs, j))->uses = 0;
  }
  for (size_t i = 0; results && i < c->seen_count; i++) {
    PyObject *value = c->seen[i];
    const int is_asked = !is_leaf(value) && known_entry(&c->values, value)->at;
    if (is_leaf(value) || (!is_asked && !is_needed(c, value))) continue;
    if (put(c, word_of(c, value)) || PyList_Append(results, value)) Py_CLEAR(results);
  }
  return results;
}

/* Return, for each leaf, whether the program may write over its memory, as bytes that are in the key as well. */
static PyObject *dead_of(cutting *c) {
  PyObject *dead = PyBytes_FromStringAndSize(0, (Py_ssize_t)c->leaf_count);
  char *flags = dead ? PyBytes_AsString(dead) : 0;
  for (size_t i = 0; flags && i < c->leaf_count; i++) {
    flags[i] = (char)is_dead(c, c->leaves[i]);
    if (!flags[i] || !put(c, ~(uint64_t)i)) continue;
    Py_CLEAR(dead);
    return 0;
  }
  return dead;
}

/* cut(values): (key, primitives, leaves, which leaves are dead, results), of a list of values. */
static PyObject *cut(PyObject *module, PyObject *values) {
  if (!PyList_CheckExact(values)) return PyErr_Format(PyExc_TypeError, "cut: a list of values is needed");
  for (Py_ssize_t i = 0; i < PyList_Size(values); i++)
    if (!PyObject_TypeCheck(PyList_GetItem(values, i), hiprt_py_array_type))
      return PyErr_Format(PyExc_TypeError, "cut: %R is no value", PyList_GetItem(values, i));
  cutting c;
  memset(&c, 0, sizeof c);
  PyObject *made = 0, *results = 0, *dead = 0;
  if (!fill(&c, values) && (results = results_of(&c, values)) && (dead = dead_of(&c))) {
    PyObject *key = PyBytes_FromStringAndSize((const char *)c.key, (Py_ssize_t)(c.key_count * sizeof *c.key));
    PyObject *primitives = list_of((PyObject *const *)c.order, c.order_count);
    PyObject *leaves = list_of(c.leaves, c.leaf_count);
    if (key && primitives && leaves) made = PyTuple_Pack(5, key, primitives, leaves, dead, results);
    Py_XDECREF(key);
    Py_XDECREF(primitives);
    Py_XDECREF(leaves);
  } else if (!PyErr_Occurred()) {
    PyErr_NoMemory();
  }
  Py_XDECREF(results);
  Py_XDECREF(dead);
  free(c.values.entries);
  free(c.primitives.entries);
  free(c.order);
  free(c.seen);
  free(c.leaves);
  free(c.key);
  return made;
}

/* hold(values, arrays, mark = None): let each value be a leaf that holds the array, and depend on nothing any more. */
static PyObject *hold(PyObject *module, PyObject *args) {
  PyObject *values, *arrays, *mark = Py_None;
  if (!PyArg_ParseTuple(args, "O!O!|O", &PyList_Type, &values, &PyTuple_Type, &arrays, &mark)) return 0;
  if (PyList_Size(values) != PyTuple_Size(arrays))
    return PyErr_Format(PyExc_ValueError, "hold: an array for each value is needed");
  for (Py_ssize_t i = 0; i < PyList_Size(values); i++) {
    hiprt_py_array *value = (hiprt_py_array *)PyList_GetItem(values, i);
    PyObject *array = PyTuple_GetItem(arrays, i);
    if (!PyObject_TypeCheck((PyObject *)value, hiprt_py_array_type) || !value->primitive ||
        !PyObject_TypeCheck(array, hiprt_py_array_type) || ((hiprt_py_array *)array)->primitive)
      return PyErr_Format(PyExc_TypeError, "hold: a value and an array in memory are needed");
    PyObject *leaf = hiprt_py_leaf(value, array);
    if (!leaf) return 0;
    if (mark != Py_None) ((hiprt_py_primitive *)leaf)->mark = Py_NewRef(mark);
    PyObject *before = value->primitive;
    value->primitive = leaf;
    Py_DECREF(before);
  }
  Py_RETURN_NONE;
}

/* pin(array): let no program write over the array's memory, which others see too. */
static PyObject *pin(PyObject *module, PyObject *array) {
  if (!PyObject_TypeCheck(array, hiprt_py_array_type)) return PyErr_Format(PyExc_TypeError, "pin: an array is needed");
  ((hiprt_py_buffer *)((hiprt_py_array *)array)->buffer)->leaves |= HIPRT_PINNED;
  Py_RETURN_NONE;
}

/* is_pinned(array): whether others see the array's memory, and may write it. */
static PyObject *is_pinned(PyObject *module, PyObject *array) {
  if (!PyObject_TypeCheck(array, hiprt_py_array_type)) return PyErr_Format(PyExc_TypeError, "is_pinned: an array is needed");
  const hiprt_py_buffer *buffer = (hiprt_py_buffer *)((hiprt_py_array *)array)->buffer;
  return PyBool_FromLong((buffer->leaves & HIPRT_PINNED) != 0);
}

/* move(leaf, array): let the array that a leaf holds show its elements in another one's memory, where they are as well;
 * return whether that was done. It is not where something else shows the memory. */
static PyObject *move(PyObject *module, PyObject *args) {
  PyObject *leaf, *other;
  if (!PyArg_ParseTuple(args, "O!O!", hiprt_py_array_type, &leaf, hiprt_py_array_type, &other)) return 0;
  hiprt_py_primitive *maker = maker_of(leaf);
  if (!maker || !is_leaf(leaf) || PyTuple_Size(maker->arguments) != 1 || ((hiprt_py_array *)other)->primitive)
    return PyErr_Format(PyExc_TypeError, "move: a leaf and an array in memory are needed");
  hiprt_py_array *array = (hiprt_py_array *)PyTuple_GetItem(maker->arguments, 0);
  const hiprt_py_array *to = (hiprt_py_array *)other;
  hiprt_py_buffer *before = (hiprt_py_buffer *)array->buffer, *now = (hiprt_py_buffer *)to->buffer;
  if (before == now || before->leaves != 1 || before->is_readonly) Py_RETURN_FALSE;
  PyObject *old_form = hiprt_py_form(array), *new_form = old_form ? hiprt_py_form((hiprt_py_array *)other) : 0;
  const int is_same = new_form ? PyObject_RichCompareBool(old_form, new_form, Py_EQ) : -1;
  Py_XDECREF(old_form);
  Py_XDECREF(new_form);
  if (is_same < 1) return is_same < 0 ? 0 : Py_NewRef(Py_False);
  PyObject *shown = array->buffer, *held = (PyObject *)maker->holds;
  array->buffer = Py_NewRef(to->buffer);
  array->address = to->address;
  array->start = to->start;
  array->end = to->end;
  maker->holds = (hiprt_py_buffer *)Py_NewRef(to->buffer);
  now->leaves++;
  before->leaves--;
  Py_DECREF(shown);
  Py_DECREF(held);
  Py_RETURN_TRUE;
}

PyMODINIT_FUNC PyInit_cut(void) {
  static PyMethodDef methods[] = {{"cut", cut, METH_O, 0},
                                  {"hold", hold, METH_VARARGS, 0},
                                  {"move", move, METH_VARARGS, 0},
                                  {"pin", pin, METH_O, 0},
                                  {"is_pinned", is_pinned, METH_O, 0},
                                  {0}};
  static struct PyModuleDef definition = {
      PyModuleDef_HEAD_INIT, "hiprt.graphs.native.cut", "Cuts of a graph of values.", -1, methods, 0, 0, 0, 0,
  };
  return PyModule_Create(&definition);
}
