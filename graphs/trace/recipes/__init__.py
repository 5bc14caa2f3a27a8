"""Recipes: what a call of a Python function computed, made from the lazy graph that it left, to be used without it.

A model's Python makes the same few thousand values for each token. `record` runs a function once with the integers of
its state as `Integer`, and finds what it did by looking: at the objects that it was given before and after, and at the
graph behind the arrays that it left in them and returned. A `core.Recipe` then does the same in C for arguments that
its pattern fits. What a recording cannot show, such as a print, is lost where a recipe is used.

A function has no recipe if it

- reads the contents of an array,
- is given an object of a kind that is not known (`Pattern`), or leaves one,
- reads an array that was there before and is in none of these objects,
- changes what is fixed, or an attribute is not there any more, or a list has another length,
- leaves an array where nothing that it was given leads to.
"""
