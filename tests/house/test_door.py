"""The front door: plain functions over one value that computes each thing once."""

import inspect
import json
import operator
import pydoc
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import quadlens
from quadlens.analysis.spectrum import Anatomy
from quadlens.base.door import DOOR
from quadlens.base.errors import WrongArgument
from quadlens.network import Weights

pytestmark = pytest.mark.slow

VERBS = (
    *(
        "load",
        "save",
        "build",
        "train",
        "import_file",
        "export_file",
        "evaluate",
        "explain",
        "bounds",
        "lens",
    ),
    *("certify", "check", "report", "explore", "study", "from_state_dict"),
)


@pytest.fixture(scope="module")
def study() -> quadlens.Study:
    return quadlens.study("pizza")


def test_the_door_shows_verbs_values_figures_and_nothing_else() -> None:
    names = set(dir(quadlens))
    assert names == set(quadlens.__all__)
    assert set(VERBS) <= names
    for name in names - {"__version__", "edit", "figures", "Weights"}:
        value = getattr(quadlens, name)
        assert inspect.isfunction(value) if name[0].islower() else inspect.isclass(value), name
    text = pydoc.plain(pydoc.render_doc(quadlens))
    assert all(f"    {name}(" in text for name in VERBS)
    with pytest.raises(AttributeError, match="it has BadConfig, "):
        _ = quadlens.nothing  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", VERBS)
def test_every_verb_has_an_example(name: str) -> None:
    assert ">>> " in (getattr(quadlens, name).__doc__ or "")


@pytest.mark.parametrize("name", VERBS)
def test_every_verb_says_what_it_returns(name: str) -> None:
    returned = inspect.signature(getattr(quadlens, name)).return_annotation
    assert returned not in (Any, "Any", inspect.Signature.empty)


def test_no_module_can_be_called() -> None:
    names = "import quadlens, sys; quadlens.certify, quadlens.report, quadlens.figures; "
    code = (
        names + "print([n for n, m in list(sys.modules.items()) "
        "if n.startswith('quadlens') and callable(m)])"
    )
    assert (
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        ).stdout
        == "[]\n"
    )


def test_verbs_share_what_a_study_has_computed(study: quadlens.Study) -> None:
    assert quadlens.explain(study) is study.explanation
    assert quadlens.bounds(study) is study.bounds
    assert quadlens.evaluate(study) is study.evaluation
    assert quadlens.certify(study, "moments") is quadlens.certify(study, "moments")


def test_every_way_to_name_a_model_gives_the_same(study: quadlens.Study, tmp_path: Path) -> None:
    path = quadlens.save(study, tmp_path / "copy.safetensors")
    for one in (study.model, study.anatomy, path, str(path), "pizza"):
        assert quadlens.evaluate(one).min_margin == study.evaluation.min_margin
    assert quadlens.evaluate(study.collapsed).min_margin == study.evaluation.min_margin
    assert quadlens.study(study.model).sha256 == study.sha256


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (3, "got an int; expected a model, a study, a path"),
        ({"W_E": 1}, r"quadlens\.from_state_dict"),
        (None, "got None"),
        (np.zeros(3), "got an ndarray"),
    ],
)
def test_a_wrong_argument_is_told_what_to_pass(wrong: Any, words: str) -> None:
    for verb in (quadlens.evaluate, quadlens.explain, quadlens.bounds, quadlens.certify):
        with pytest.raises(WrongArgument, match=words):
            verb(wrong)
    with pytest.raises(TypeError, match=words):
        quadlens.report(wrong, "nowhere")


@pytest.mark.parametrize(
    ("verb", "arguments", "words"),
    [
        (
            "check",
            {"certificate": "nosuch", "model": "pizza"},
            "nosuch: no such file or directory; give a certificate",
        ),
        (
            "edit.ablate",
            {"model": "pizza", "frequencies": 5},
            "frequencies = 5: got an int; expected integers in a list, as [5]",
        ),
        (
            "edit.ablate",
            {"model": "pizza", "frequencies": [7]},
            "no neuron reads frequency 7 most, so that nothing would change",
        ),
        ("build", {"keys": 5}, "keys = 5: got an int; expected integers in a list, as [5]"),
        ("build", {"p": "5"}, "p = '5': got a str; expected an integer"),
        ("build", {"neurons": 3.5}, "neurons = 3.5: got a float; expected an integer"),
        (
            "figures.quadrature",
            {"study": "pizza", "k": "5"},
            "k = '5': got a str; expected an integer",
        ),
        ("bounds", {"model": "pizza", "moments": "3"}, "moments = '3': got a str"),
        (
            "certify",
            {"model": "pizza", "strategy": 5},
            "strategy = 5: got an int; expected a string",
        ),
        (
            "save",
            {"model": "pizza", "path": 3},
            "path = 3: got an int; expected a string or a path",
        ),
        ("history", {"run": 3}, "run = 3: got an int; expected a string or a path"),
        (
            "edit.mix_attention",
            {"model": "clock", "rate": "half"},
            "rate = 'half': got a str; expected a number",
        ),
        ("train", {"p": 1}, "settings: p = 1 is not supported"),
    ],
)
def test_a_wrong_argument_of_any_verb_is_a_sentence_with_the_remedy(
    verb: str, arguments: dict[str, Any], words: str
) -> None:
    with pytest.raises(quadlens.QuadlensError, match=re.escape(words)):
        operator.attrgetter(verb)(quadlens)(**arguments)


def test_a_collapsed_model_cannot_be_certified(study: quadlens.Study) -> None:
    with pytest.raises(WrongArgument, match="no weights to prove anything about"):
        quadlens.certify(study.collapsed)  # type: ignore[arg-type]


def test_every_public_value_shows_itself_briefly(study: quadlens.Study) -> None:
    values: list[Any] = [
        study,
        study.model,
        study.config,
        study.collapsed,
        study.evaluation,
        study.explanation,
    ]
    certificate = study.certify("moments")
    values += [
        study.explanation.logits,
        study.bounds,
        certificate,
        quadlens.check(certificate, study),
    ]
    values += [
        quadlens.build(p=7, neurons=9, architecture="mlp"),
        quadlens.TrainConfig(seed=3),
        quadlens.Recipe(5, (1,), 4),
    ]
    values += [values[-3].config, quadlens.study(quadlens.build(p=7, neurons=9))]
    for value in values:
        assert len(repr(value)) < 200, repr(value)
        assert "\n" not in repr(value)
        assert repr(value).startswith(type(value).__name__)
        assert value._repr_html_().startswith("<")


def test_showing_a_study_computes_nothing() -> None:
    fresh = quadlens.study("pizza")
    assert "nothing yet" in repr(fresh)
    fresh._repr_html_()
    assert not [
        name for name in fresh.__dir__() if name in DOOR.parts and DOOR.part_named(name) in fresh
    ]
    assert set(vars(fresh.anatomy)) == {"model"}


def test_a_proof_of_a_model_in_memory_is_checked() -> None:
    model = quadlens.build(p=5, neurons=16)
    certificate = quadlens.certify(model, "arcs")
    assert quadlens.check(certificate, model).verdict == "VERIFIED"
    other = quadlens.build(p=5, neurons=17)
    assert quadlens.check(certificate, other).verdict == "REJECTED"
    with pytest.raises(WrongArgument, match="expected a certificate"):
        quadlens.check(3, model)  # type: ignore[arg-type]


def test_what_a_study_is_of() -> None:
    study = quadlens.study("pizza")
    assert isinstance(study.anatomy, Anatomy)
    assert study.name == "pizza"
    assert study.history is not None
    assert quadlens.study(study) is study
    assert quadlens.study(study.model).history is None
    assert study.without_proofs().certificates == ()
    assert json.dumps(study.sha256)


def test_a_report_collapses_once_and_decomposes_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One float collapse, one exact collapse, one spectral decomposition for one whole report."""
    counts = {"collapse": 0, "exact": 0, "spectra": 0}
    path = quadlens.save(quadlens.build(p=13, neurons=40), tmp_path / "toy.safetensors")

    def counting(name: str, function: Any) -> Any:
        def wrapped(*arguments: Any, **more: Any) -> Any:
            counts[name] += 1
            return function(*arguments, **more)

        return wrapped

    from quadlens.analysis.spectrum import cluster
    from quadlens.network import exact

    originals = {"exact": exact.collapse_exactly, "spectra": cluster.neuron_spectra}
    monkeypatch.setattr(Weights, "collapse", counting("collapse", Weights.collapse))
    for module in [one for name, one in list(sys.modules.items()) if name.startswith("quadlens.")]:
        for name, function in originals.items():
            for attribute, value in list(vars(module).items()):
                if value is function:
                    monkeypatch.setattr(module, attribute, counting(name, function))
    quadlens.report(path, tmp_path / "report")
    # The float32 line collapses the model of absolute values, which is another model.
    assert counts == {"collapse": 1, "exact": 2, "spectra": 1}


NOTEBOOK = """
import matplotlib.pyplot as plt
import quadlens

model = quadlens.import_file("checkpoint.safetensors")
study = quadlens.study(model)
explanation = quadlens.explain(study)
print(explanation.summary())

figure, axes = plt.subplots()
quadlens.figures.quadrature(study, k=explanation.key_frequencies[0], ax=axes)

certificate = quadlens.certify(study)
print(certificate.verdict, certificate.statement)
for cluster in quadlens.bounds(study).bounded:
    print(cluster.k, cluster.relative_bound.value)
"""


def test_the_notebook_of_a_newcomer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Load, explain, draw a cluster on my own axes, certify, print the bound: public names."""
    import matplotlib.pyplot as plt

    assert len([line for line in NOTEBOOK.splitlines() if line.strip()]) <= 15
    assert "._" not in NOTEBOOK
    assert set(re.findall(r"quadlens\.(\w+)", NOTEBOOK)) <= set(quadlens.__all__)
    quadlens.export_file("pizza", "transformer-lens", tmp_path / "checkpoint.safetensors")
    monkeypatch.chdir(tmp_path)
    known: dict[str, Any] = {}
    exec(compile(NOTEBOOK, "notebook", "exec"), known)
    assert known["axes"].patches or known["axes"].collections
    assert known["certificate"].verdict == "CERTIFIED"
    plt.close("all")


def test_logits_and_preactivations_of_every_model() -> None:
    """Against the forward pass written the obvious way."""
    from quadlens.network.evaluate import all_pairs

    for name in ("pizza", "clock", "times"):
        study = quadlens.study(name)
        n = study.p
        rows = all_pairs(n).reshape(n, n, 2)[3]
        np.testing.assert_allclose(study.logits(3), study.model.forward(rows), rtol=1e-9, atol=1e-9)
        assert study.preactivations(3).shape == (n, study.config.d_mlp)
    tables = quadlens.load("pizza").collapse()
    np.testing.assert_allclose(
        quadlens.study("pizza").preactivations(3), tables.U_a[3] + tables.U_b
    )
    for bad in (-1, 59):
        with pytest.raises(quadlens.BadConfig, match=f"a = {bad}; expected an element, 0 … 58"):
            quadlens.study("pizza").logits(bad)


def test_edits_have_a_module_of_their_own() -> None:
    assert [
        name for name in dir(quadlens.edit) if name in quadlens.edit.__all__
    ] == quadlens.edit.__all__
    assert not set(quadlens.edit.__all__) & set(quadlens.__all__)


def test_a_task_by_name_table_or_file(tmp_path: Path) -> None:
    table = [[1, 0], [0, 1]]
    (tmp_path / "t.csv").write_text("1,0\n0,1\n")
    assert (
        quadlens.task(table) == quadlens.task(np.array(table)) == quadlens.task(tmp_path / "t.csv")
    )
    assert quadlens.task(str(tmp_path / "t.csv")).answers.tolist() == table
    assert quadlens.task("add", 59) == quadlens.load("pizza").config.task
    assert quadlens.task("S3").n == 6
    for bad in ([[0, 1]], [[0.5, 1.0], [1.0, 0.0]], [0, 1]):
        with pytest.raises(
            quadlens.BadConfig, match="expected n rows of n integers from 0 to n - 1"
        ):
            quadlens.task(np.array(bad))
    state = {"fc1.weight": np.ones((3, 4)), "fc2.weight": np.ones((2, 3))}
    read = quadlens.from_state_dict(state, activation="relu", task=quadlens.task(table))
    assert read.model.config.task == quadlens.task(table)


def test_values_are_short_all_the_way_down(study: quadlens.Study) -> None:
    """A public value shows itself in 200 characters, and what it holds in 120, however deep."""
    import dataclasses

    public = {getattr(quadlens, name) for name in quadlens.__all__}

    def walk(value: Any, path: str, depth: int) -> list[str]:
        inner = [("[0]", x) for x in value[:1]] if isinstance(value, tuple) else []
        if dataclasses.is_dataclass(value):
            inner = [
                (f".{one.name}", getattr(value, one.name)) for one in dataclasses.fields(value)
            ]
        ours, most = (
            type(value).__module__.startswith("quadlens"),
            200 if type(value) in public else 120,
        )
        long = (
            [f"{path}: {repr(value)[:300]}"]
            if ours and not (len(repr(value)) < most and "\n" not in repr(value))
            else []
        )
        return long + [
            one for name, x in inner if depth < 5 for one in walk(x, path + name, depth + 1)
        ]

    adder = quadlens.study("adder")
    values = {
        "study": study,
        "explanation": study.explanation,
        "bounds": study.bounds,
        "lens": study.lens,
        "certificate": study.certify("moments"),
        "cluster": study.explanation.clusters[0],
        "evaluation": study.evaluation,
        "outline": quadlens.explain("clock"),
        "config": study.config,
        "tables": study.collapsed,
        "task": study.config.task,
        "weights": study.model,
        "parameterised": quadlens.parameterise(study),
        "history": quadlens.history("pizza"),
        "recipe": quadlens.Recipe(p=11, keys=(1, 2), neurons=20),
        "training": quadlens.TrainConfig(),
        "sequences": adder,
        "sequence weights": adder.model,
        "sequence certificate": quadlens.certify(adder),
        "sequence explanation": quadlens.explain(adder),
    }
    assert [line for name, value in values.items() for line in walk(value, name, 0)] == []
    assert study.bounds is not None
    assert repr(study.bounds.bounded[0].relative_exact).startswith("Exact(0.032400357")
    assert repr(study.explanation.clusters[0]).startswith("Cluster(p=59, k=5, neurons=int64[176], ")
