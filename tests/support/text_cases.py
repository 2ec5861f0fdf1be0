"""What tests of text tasks share: files to read, and the size of a model that reads them."""

import json

TINY = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}


def put(folder, place, rows):
    path = folder / place
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path
