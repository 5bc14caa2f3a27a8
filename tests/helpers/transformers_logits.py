"""Logits of a published checkpoint by the library transformers, in a process of its own.

Called with a model directory, an .npy of tokens and where to put the .npy of logits. The process must not see the
folders of this repository, one of which has the name of a library that transformers looks for.
"""

import sys

import numpy as np


def main(folder, tokens, out):
    """Write the logits after every token."""
    import torch
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager")
    with torch.no_grad():
        logits = model(torch.from_numpy(np.load(tokens)).long()[None]).logits[0]
    np.save(out, logits.numpy())


if __name__ == "__main__":
    main(*sys.argv[1:])
