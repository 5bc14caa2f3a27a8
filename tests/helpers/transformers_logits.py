"""Computes the logits of a published checkpoint with the library transformers, in a process of its own.

Called with an .npy of tokens and model directories, each of which gets a ``logits.npy``. The process must not see the
folders of this repository, one of which has the name of a library that transformers looks for.
"""

import sys

import numpy as np


def main(tokens, *folders):
    """Write the logits after every token."""
    import torch
    from transformers import AutoModelForCausalLM

    ids = torch.from_numpy(np.load(tokens)).long()[None]
    for folder in folders:
        model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager")
        with torch.no_grad():
            np.save(f"{folder}/logits.npy", model(ids).logits[0].numpy())


if __name__ == "__main__":
    main(*sys.argv[1:])
