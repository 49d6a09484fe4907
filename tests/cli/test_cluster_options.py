"""``--cluster``: bad input is one sentence, within seconds, and leaves nothing behind; what is said names the node."""

import json
import socketserver
import threading

import numpy as np
import pytest
from PIL import Image

OPTIONS = ("--detector", "zoo:ssd", "--data", "rooms:val", "--limit", "2")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (("--cluster", "dask"), "cluster should be ray or ray:ADDRESS. Got 'dask'"),
        (("--cluster", "ray:"), "cluster should be ray or ray:ADDRESS"),
        (("--ship-data",), "ship_data is for a cluster"),
        (("--cluster", "ray", "--cpus-per-worker", "0"), "are both 0"),
    ],
)
def test_what_cannot_be_meant_is_refused(run, tmp_path, given, said):
    code, out, _ = run("explain", *OPTIONS, "--out", tmp_path / "run", *given, "--json")
    assert (code, json.loads(out)["error"]["exit_code"]) == (2, 2)
    assert said in json.loads(out)["error"]["message"]
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("127.0.0.1:9", "there is no Ray cluster at 127.0.0.1:9"),
        ("nowhere", "expected the address of a Ray cluster"),
        ("//127.0.0.1:9", "there is no Ray cluster at ray://127.0.0.1:9"),
        ("ray://127.0.0.1:9", "there is no Ray cluster at ray://127.0.0.1:9"),
    ],
)
def test_an_address_without_a_cluster_is_one_sentence(run, tmp_path, address, said):
    pytest.importorskip("ray", reason="Ray is not installed (pip install '.[ray]')")
    code, out, _ = run("explain", *OPTIONS, "--out", tmp_path / "run", "--cluster", f"ray:{address}", "--json")
    found = json.loads(out)["error"]
    assert (code, found["kind"]) == (2, "bad-cluster")
    assert said in found["message"]
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize("scheme", ["", "ray://"])
@pytest.mark.parametrize("answer", [b"HTTP/1.1 400 Bad Request\r\n\r\n", b""])
def test_where_something_else_listens_it_is_said_at_once(answer, scheme):
    """Ray itself would try for minutes."""
    pytest.importorskip("ray", reason="Ray is not installed (pip install '.[ray]')")
    from misdetect.engine.cluster import connect
    from misdetect.said.errors import BadCluster

    class Other(socketserver.BaseRequestHandler):
        def handle(self):
            self.request.recv(100)
            self.request.sendall(answer)

    with socketserver.TCPServer(("127.0.0.1", 0), Other) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        with pytest.raises(BadCluster, match=r"there is no Ray cluster at .*: something else listens there"):
            connect(f"{scheme}127.0.0.1:{server.server_address[1]}")
        server.shutdown()


@pytest.mark.heavy
def test_images_travel_to_where_their_path_is_not_seen(tmp_path, monkeypatch):
    """The path is relative to a folder that nodes do not have: refused by the node's name, and not when shipped."""
    pytest.importorskip("ray", reason="Ray is not installed (pip install '.[ray]')")
    from clusters import two_nodes

    import misdetect as md
    from misdetect.said.errors import BadCluster

    (tmp_path / "home" / "photos").mkdir(parents=True)
    for i in range(6):
        pixels = np.random.default_rng(i).integers(0, 256, (48, 64, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(tmp_path / "home" / "photos" / f"{i}.png")
    with two_nodes() as nodes:
        monkeypatch.chdir(tmp_path / "home")
        how = {"cache": False, "cluster": f"ray:{nodes.address}"}
        one = md.detect("zoo:ssd", "folder:photos", cache=False)
        monkeypatch.setattr("misdetect.engine.cluster._home", lambda: str(tmp_path / "elsewhere"))
        with pytest.raises(BadCluster, match=r"node .* --ship-data sends the images there"):
            md.detect("zoo:ssd", "folder:photos", **how)
        sent = md.detect("zoo:ssd", "folder:photos", ship_data=True, **how)
    assert sent.directory.table().equals(one.directory.table())
