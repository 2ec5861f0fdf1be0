"""Pictures and citations from files, written here in the published formats."""

import gzip
import pickle
from collections import defaultdict

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from ascender.tasks import task
from ascender.train import Run, train

TRAIN, TEST, SIDE = 40, 12, 28


def idx(path, values):
    head = b"\0\0\x08" + bytes([values.ndim])
    head += b"".join(n.to_bytes(4, "big") for n in values.shape)
    path.parent.mkdir(parents=True, exist_ok=True)
    raw = head + values.astype(np.uint8).tobytes()
    path.write_bytes(gzip.compress(raw) if path.suffix == ".gz" else raw)


@pytest.fixture
def folder(tmp_path):
    rng = np.random.default_rng(0)
    for stem, n in (("train", TRAIN), ("t10k", TEST)):
        idx(tmp_path / f"mnist/{stem}-images-idx3-ubyte.gz", rng.integers(0, 256, (n, SIDE, SIDE)))
        idx(tmp_path / f"mnist/{stem}-labels-idx1-ubyte", np.arange(n) % 10)
    place = tmp_path / "cifar-10-batches-bin"
    place.mkdir()
    for i, name in enumerate([*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"]):
        rows = rng.integers(0, 256, (8, 3073), dtype=np.uint8)
        rows[:, 0] = i
        (place / f"{name}.bin").write_bytes(rows.tobytes())
    return tmp_path


def test_patches_are_the_pixels_of_their_square(folder):
    made = task("mnist", data_dir=str(folder))
    assert [made.rows(s) for s in ("train", "validation", "test")] == [36, 4, 12]
    assert (made.length, made.vector_size, made.neighbours.shape) == (49, 16, (49, 8))
    batch = next(made.eval_batches("test", 5))
    raw = gzip.decompress((folder / "mnist/t10k-images-idx3-ubyte.gz").read_bytes())[16:]
    images = np.frombuffer(raw, np.uint8).reshape(TEST, SIDE, SIDE)
    for n in (0, 3):
        for token in (0, 8, 48):  # (0, 0), (1, 1), (6, 6)
            y, x = 4 * (token // 7), 4 * (token % 7)
            square = images[n, y : y + 4, x : x + 4].reshape(-1) / 127.5 - 1
            assert np.allclose(batch.inputs["vectors"][n, token], square, atol=1e-6)
    assert batch.labels.tolist() == [0, 1, 2, 3, 4]
    with pytest.raises(ValueError, match="patch = 5; expected a divisor of the side, 28"):
        task("mnist", patch=5, data_dir=str(folder))


@pytest.mark.parametrize("name", ["mnist", "cifar10", "lra-image"])
def test_displayed_cells_make_up_the_picture(folder, name):
    """Laid out on their grid, the tokens' pictures are the image of the file."""
    made = task(name, data_dir=str(folder))
    one = list(made.eval_batches("test", 1))[3]
    seen, (rows, cols) = made.display(one), made.display(one).grid
    cells = np.rint(seen.images * 255).reshape(rows, cols, *seen.images.shape[1:])
    whole = np.concatenate(np.concatenate(cells, 1), 1)
    image = made.parts["test"][0][3].astype(float)
    if name == "lra-image":
        image = np.rint(image @ [0.299, 0.587, 0.114])
    assert np.array_equal(whole, image.squeeze())
    assert seen.classes[int(one.labels[0])] == made.classes[3 if name == "mnist" else 5]


def test_cifar_is_red_green_blue_and_grey(folder):
    made = task("lra-image", data_dir=str(folder))
    batch = next(made.eval_batches("test", 3))
    raw = np.fromfile(folder / "cifar-10-batches-bin/test_batch.bin", np.uint8).reshape(-1, 3073)
    r, g, b = (raw[2, 1 + 1024 * c + 33].astype(float) for c in range(3))
    assert int(batch.inputs["input_ids"][2, 33]) == round(0.299 * r + 0.587 * g + 0.114 * b)
    colour = task("cifar10", data_dir=str(folder))
    assert colour.vector_size == 48
    square = raw[2, 1:].reshape(3, 32, 32)[:, :4, :4].transpose(1, 2, 0).reshape(-1) / 127.5 - 1
    found = next(colour.eval_batches("test", 3)).inputs["vectors"][2, 0]
    assert np.allclose(found, square, atol=1e-6)
    assert set(batch.labels.tolist()) == {5}


@pytest.mark.parametrize(
    ("name", "file", "spoil", "said"),
    [
        ("mnist", "mnist/t10k-labels-idx1-ubyte", None, r"no file .*t10k-labels-idx1-ubyte"),
        ("mnist", "mnist/t10k-labels-idx1-ubyte", b"\0\0\x08\x01\0\0\0\x09ab", "no whole idx"),
        ("mnist", "mnist/train-images-idx3-ubyte.gz", b"\x1f\x8bxx", "cannot be read"),
        ("cifar10", "cifar-10-batches-bin/data_batch_4.bin", b"abc", "multiple of 3073"),
        ("cifar10", "cifar-10-batches-bin/test_batch.bin", None, "no file .*test_batch.bin"),
    ],
)
def test_files_that_are_missing_or_damaged_are_named(name, file, spoil, said, folder):
    (folder / file).unlink() if spoil is None else (folder / file).write_bytes(spoil)
    with pytest.raises((FileNotFoundError, ValueError), match=said):
        task(name, data_dir=str(folder))


def planetoid(folder, name="cora", classes=7, width=5):
    """150 labelled, 40 more, 10 for test, in the order of the published files."""
    rng = np.random.default_rng(1)
    whole, labelled, nodes = 650, 20 * classes, 660
    x = (rng.random((nodes, width)) < 0.4).astype(np.float32)
    y = np.eye(classes, dtype=np.int32)[rng.integers(0, classes, nodes)]
    test = np.arange(whole, nodes)[::-1].copy()  # listed in another order
    pieces = {
        "x": csr_matrix(x[:labelled]), "y": y[:labelled], "allx": csr_matrix(x[:whole]),
        "ally": y[:whole], "tx": csr_matrix(x[test]), "ty": y[test],
        "graph": defaultdict(list, {i: [(i + 1) % nodes, (i + 7) % nodes] for i in range(nodes)}),
    }  # fmt: skip
    place = folder / "planetoid"
    place.mkdir()
    for piece, value in pieces.items():
        (place / f"ind.{name}.{piece}").write_bytes(pickle.dumps(value, protocol=2))
    (place / f"ind.{name}.test.index").write_text("\n".join(map(str, test)))
    return x, y.argmax(1)


def test_citations_are_one_graph(tmp_path):
    x, y = planetoid(tmp_path)
    made = task("cora", data_dir=str(tmp_path))
    assert [len(made.nodes[s]) for s in ("train", "validation", "test")] == [140, 500, 10]
    found = made.train(0, 0, 1).inputs["vectors"][0].numpy()
    assert np.allclose(found, x / np.maximum(x.sum(1, keepdims=True), 1))
    batch = next(made.eval_batches("test", 1))
    counted = (batch.labels[0] != -100).nonzero()[:, 0]
    assert counted.tolist() == list(range(650, 660))
    assert batch.labels[0, counted].tolist() == y[650:].tolist()
    assert sorted(j for j in made.neighbours[20].tolist() if j >= 0) == [13, 19, 21, 27]
    assert "paper 0" in made.example()


def test_a_graph_is_trained_on(tmp_path):
    planetoid(tmp_path)
    small = {"hidden": 16, "heads": 2, "layers": 1, "steps": 2, "every": 1}
    record = train(Run.of("cora", **small), tmp_path / "out", data_dir=str(tmp_path))
    assert record["test"]["n"] == 10
    with pytest.raises(ValueError, match="batch = 4; expected 1"):
        train(Run.of("cora", **small, batch=4), tmp_path / "no", data_dir=str(tmp_path))
    assert not (tmp_path / "no").exists()


class Trap:
    def __reduce__(self):
        return print, ("a stranger's code ran",)


def test_a_pickle_that_runs_something_is_refused(tmp_path, capsys):
    planetoid(tmp_path)
    (tmp_path / "planetoid/ind.cora.graph").write_bytes(pickle.dumps(Trap()))
    with pytest.raises(ValueError, match=r"ind.cora.graph cannot be read: .*print in the file"):
        task("cora", data_dir=str(tmp_path))
    pickle.loads(pickle.dumps(Trap()))
    assert capsys.readouterr().out == "a stranger's code ran\n"  # once: by the line above


def test_without_files_the_error_says_what_to_bring(tmp_path):
    with pytest.raises(
        FileNotFoundError, match=r"expected --data-dir DIR with planetoid/ind\.cora\.x"
    ):
        task("cora")
    with pytest.raises(FileNotFoundError, match=r"no file .*ind.citeseer.x; expected"):
        task("citeseer", data_dir=str(tmp_path))
