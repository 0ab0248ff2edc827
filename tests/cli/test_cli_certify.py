"""`quadlens certify` and `check`: verdicts, exit codes, JSON keys, witnesses and messages."""

import json
import re
import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from quadlens.cli.main import main
from quadlens.network.config import Config
from quadlens.network.evaluate import evaluate
from quadlens.network.handmade import Recipe, build_mlp, build_transformer
from quadlens.network.native import save
from quadlens.network.weights import Weights
from quadlens.proofs.pairs import STRATEGIES

CERTIFY_KEYS = {
    "verdict", "strategy", "p", "inputs", "certified_inputs", "accuracy_lower_bound",
    "margin_lower_bound",
    "terms", "flops", "collapse_flops", "brute_force_flops", "brute_force_collapse_flops",
    "cost_share", "cost_share_beyond_collapse", "seconds", "model_sha256",
}  # fmt: skip
CHECK_KEYS = {"verdict", "reason", "seconds", "model_sha256"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cli")
    save(
        build_transformer(Recipe(11, (1, 2, 4), 48, jitter=0.05, noise=0.02, seed=3)),
        folder / "good.safetensors",
    )
    save(
        build_transformer(Recipe(11, (1, 2, 4), 48, noise=0.6, seed=3)),
        folder / "wrong.safetensors",
    )
    pizza = build_mlp(Recipe(5, (1, 2), 12))
    square = Weights.mlp(
        Config.mlp(5, pizza.config.d_mlp, "square"), pizza.W_a, pizza.W_b, pizza.W_out
    )
    save(square, folder / "square.safetensors")
    return folder


def quadlens(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *arguments: object
) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of the command line."""
    monkeypatch.setattr(sys, "argv", ["quadlens", *map(str, arguments)])
    code = 0
    try:
        main()
    except SystemExit as stop:
        code = int(stop.code or 0)
    captured = capsys.readouterr()
    return code, captured.out, captured.err


class Cli:
    """The command line as a function of its words."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self.monkeypatch, self.capsys = monkeypatch, capsys

    def __call__(self, *arguments: object) -> tuple[int, str, str]:
        return quadlens(self.monkeypatch, self.capsys, *arguments)

    def json(self, *arguments: object) -> tuple[int, Any]:
        code, out, _ = self(*arguments, "--json")
        return code, json.loads(out)


@pytest.fixture
def cli(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Cli:
    return Cli(monkeypatch, capsys)


def test_certify_then_check(cli: Cli, folder: Path) -> None:
    certificate, model = folder / "good.json", folder / "good.safetensors"
    code, value = cli.json("certify", model, "-o", certificate)
    assert code == 0
    assert set(value) >= CERTIFY_KEYS
    assert (value["verdict"], value["certified_inputs"], value["accuracy_lower_bound"]) == (
        "CERTIFIED",
        121,
        1.0,
    )
    code, report = cli.json("check", certificate, model)
    assert code == 0
    assert set(report) >= CHECK_KEYS
    assert (report["verdict"], report["model_sha256"]) == ("VERIFIED", value["model_sha256"])
    assert report["claims"]["certified_inputs"] == 121


def test_the_verdict_is_the_first_word(cli: Cli, folder: Path) -> None:
    certificate, model = folder / "words.json", folder / "good.safetensors"
    code, out, err = cli("certify", model, "-o", certificate, "--quiet")
    assert (code, out.split(":")[0], err) == (0, "CERTIFIED", "")
    code, out, err = cli("check", certificate, model, "--quiet")
    assert (code, out.split(":")[0], err) == (0, "VERIFIED", "")


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["arcs", "brute", "auto"])
def test_a_wrong_model_gets_witnesses_that_evaluate_replays(
    cli: Cli, folder: Path, strategy: str
) -> None:
    certificate, model = folder / "wrong.json", folder / "wrong.safetensors"
    code, value = cli.json("certify", model, "--strategy", strategy, "-o", certificate)
    assert (code, value["verdict"]) == (1, "PARTLY")
    code, replayed = cli.json("evaluate", model)
    assert code == 0
    assert value["witnesses"] == replayed["wrong"]
    assert value["certified_inputs"] == replayed["correct"]
    assert "the model is wrong" in value["reason"]
    code, report = cli.json("check", certificate, model)
    assert (code, report["verdict"], report["claims"]["certified_inputs"]) == (
        1,
        "VERIFIED",
        replayed["correct"],
    )
    code, out, _ = cli("check", certificate, model, "--quiet")
    assert (code, out.split(".")[0]) == (1, f"VERIFIED: {replayed['correct']} of 121 inputs")


def test_check_says_when_time_is_too_short(cli: Cli, folder: Path) -> None:
    certificate, model = folder / "late.json", folder / "good.safetensors"
    cli("certify", model, "-o", certificate)
    code, out, _ = cli("check", certificate, model, "--max-seconds", 0, "--quiet")
    assert (code, out) == (1, "TIMEOUT: not verified within 0 seconds\n")
    code, report = cli.json("check", certificate, model, "--max-seconds", 0)
    assert (code, report["verdict"], report["claims"]) == (1, "TIMEOUT", {})


def test_the_cost_is_printed_as_not_checked(cli: Cli, folder: Path) -> None:
    certificate, model = folder / "counted.json", folder / "good.safetensors"
    cli("certify", model, "-o", certificate)
    content = json.loads(certificate.read_text())
    content["cost"]["flops"] += 1
    certificate.write_text(json.dumps(content))
    code, report = cli.json("check", certificate, model)
    assert (code, report["verdict"], report["cost"]) == (0, "VERIFIED", content["cost"])
    words = " ".join(cli("check", certificate, model)[1].split())
    assert f"Cost, not checked: {content['cost']['flops']:,} operations" in words


def test_moments_say_which_term_stops_them(cli: Cli, folder: Path) -> None:
    code, value = cli.json("certify", folder / "wrong.safetensors", "--strategy", "moments")
    assert (code, value["verdict"]) == (1, "PARTLY")
    assert "output residual" in value["terms"]
    assert re.search(r"inputs are not proved; the worst is \d+ \+ \d+.*neurons", value["reason"])


def test_auto_takes_the_cheapest_that_proves_everything(cli: Cli, folder: Path) -> None:
    flops = {
        name: cli.json("certify", folder / "good.safetensors", "--strategy", name)[1]
        for name in STRATEGIES
    }
    proved = {
        name: value["flops"] for name, value in flops.items() if value["verdict"] == "CERTIFIED"
    }
    assert proved["auto"] == min(proved.values())


def test_a_square_model_gets_a_reason_from_arcs_and_a_proof_from_auto(
    cli: Cli, folder: Path
) -> None:
    model = folder / "square.safetensors"
    code, value = cli.json("certify", model, "--strategy", "arcs", "-o", folder / "none.json")
    assert (code, value["verdict"], value["margin_lower_bound"]) == (1, "UNPROVED", None)
    assert "use the strategy brute" in value["reason"]
    # Nothing is proved, so that there is nothing to write.
    assert not (folder / "none.json").exists()
    assert "output" not in value
    assert (
        "none.json is not written"
        in cli("certify", model, "--strategy", "arcs", "-o", folder / "none.json")[2]
    )
    _, value = cli.json("certify", model)
    assert value["strategy"] == "brute"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["certify", "nowhere.safetensors"], "no such file"),
        (["certify", "{good}", "--strategy", "faith"], "strategy 'faith' is not known"),
        (["certify", "{good}", "-o", "/nowhere/cert.json"], "cannot write"),
        (["check", "nowhere.json", "{good}"], "give a certificate"),
        (["check", "{good}", "nowhere.safetensors"], "no such file"),
    ],
)
def test_bad_input_is_exit_code_2_with_a_message(
    cli: Cli, folder: Path, arguments: list[str], message: str
) -> None:
    good = str(folder / "good.safetensors")
    code, out, err = cli(*[word.format(good=good) for word in arguments])
    assert (code, out) == (2, "")
    assert message in err
    assert "Traceback" not in err


def test_a_strategy_that_is_not_known_writes_no_certificate(cli: Cli, folder: Path) -> None:
    model, certificate = folder / "good.safetensors", folder / "none.json"
    code, _, err = cli("certify", model, "--strategy", "arcs-bounded", "-o", certificate)
    assert code == 2
    assert "strategy 'arcs-bounded' is not known" in err
    assert not certificate.exists()


def test_check_rejects_the_wrong_model_with_exit_code_1(cli: Cli, folder: Path) -> None:
    cli("certify", folder / "good.safetensors", "-o", folder / "good.json")
    code, report = cli.json("check", folder / "good.json", folder / "wrong.safetensors")
    assert (code, report["verdict"]) == (1, "REJECTED")
    assert "another model" in report["reason"]


@pytest.mark.slow
def test_all_strategies_write_tables_and_figures(cli: Cli, folder: Path) -> None:
    out = folder / "frontier"
    code, value = cli.json("certify", folder / "good.safetensors", "--all", "-o", out)
    assert code == 0
    assert [point["strategy"] for point in value["points"]] == [
        "brute",
        "arcs",
        "moments",
        "thin",
    ]
    by_name = {point["strategy"]: point for point in value["points"]}
    assert by_name["brute"]["cost_share"] == by_name["brute"]["cost_share_beyond_collapse"] == 1.0
    assert by_name["arcs"]["margin_lower_bound"] == by_name["brute"]["margin_lower_bound"]
    for name in ("frontier.csv", "frontier.json", "frontier.svg"):
        assert (out / name).stat().st_size > 0
    rows = (out / "frontier.csv").read_text().splitlines()
    assert rows[0].startswith("strategy,verdict,certified_share,margin_lower_bound,flops")
    assert len(rows) == 5


def test_all_strategies_refuse_a_directory_it_cannot_make(cli: Cli, folder: Path) -> None:
    code, _, err = cli(
        "certify", folder / "good.safetensors", "--all", "-o", folder / "good.safetensors"
    )
    assert code == 2
    assert "it is a file; give the name of a directory" in err
    for more in (("--strategy", "brute", "-o", folder / "x"), ()):
        code, _, err = cli("certify", folder / "good.safetensors", "--all", *more)
        assert (code, "every strategy, into -o DIR" in " ".join(err.replace("│", " ").split())) == (
            2,
            True,
        )
    assert not (folder / "x").exists()


@pytest.mark.parametrize("command", ["certify", "check"])
def test_help_has_an_example_and_the_common_options(cli: Cli, command: str) -> None:
    code, out, _ = cli(command, "--help")
    assert code == 0
    for word in ("Example: quadlens", "--json", "--quiet", "--debug"):
        assert word in out


def test_python_says_the_same_in_one_line(folder: Path) -> None:
    import quadlens as package

    model = package.load(folder / "good.safetensors")
    certificate = package.study(model).certify("arcs")
    assert certificate.verdict == "CERTIFIED"
    assert float(certificate.proof.margin or 0) == pytest.approx(
        evaluate(model.collapse()).min_margin
    )


def test_certify_refuses_before_it_proves(
    cli: Cli, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*arguments: object, **more: object) -> None:
        raise AssertionError("worked before it refused")

    monkeypatch.setattr("quadlens.proofs.pairs.produce.certify", never)
    model = folder / "good.safetensors"
    before = sorted(folder.iterdir())
    for words, message in (
        (["--strategy", "foo"], "strategy 'foo' is not known; expected one of brute"),
        (["-o", folder / "nowhere" / "x.json"], "choose a directory that exists and is writable"),
        (["-o", folder], "it is a directory; give a file name"),
    ):
        code, out, err = cli("certify", model, *words)
        assert (code, out) == (2, "")
        assert err.startswith("error: ")
        assert message in err
        assert err.count("\n") == 1
    assert sorted(folder.iterdir()) == before


def number_after(text: str, name: str) -> str:
    (found,) = re.findall(rf"^  {name} +(\S+)", text, re.MULTILINE)
    return str(found)


def test_text_rounds_bounds_to_the_safe_side_and_json_does_not(cli: Cli, folder: Path) -> None:
    certificate, model = folder / "digits.json", folder / "good.safetensors"
    _, value = cli.json("certify", model, "-o", certificate, "--strategy", "moments")
    _, text, _ = cli("certify", model, "--strategy", "moments", "--quiet")
    _, claims = cli.json("check", certificate, model)
    _, checked, _ = cli("check", certificate, model, "--quiet")
    assert "rounded down; exactly with --json" in checked
    margin, error = (Fraction(claims["claims"][name]) for name in ("margin", "float32_error"))
    for shown, truth in (
        (number_after(text, "margin_lower_bound"), Fraction(value["margin_lower_bound"])),
        (number_after(checked, "margin"), margin),
    ):
        assert truth - Fraction(1, 10**4) <= Fraction(shown) <= truth
        assert len(shown) <= 8
    for shown, truth in (
        (number_after(text, "float32_error"), Fraction(value["float32_error"])),
        (number_after(checked, "float32_error"), error),
        *((number_after(text, name), Fraction(bound)) for name, bound in value["terms"].items()),
    ):
        assert truth <= Fraction(shown) <= truth * (1 + Fraction(1, 10**3))
        assert len(shown) <= 12


def test_a_rejected_certificate_proves_nothing_again(cli: Cli, folder: Path) -> None:
    cli("certify", folder / "good.safetensors", "-o", folder / "other.json")
    code, out, _ = cli("check", folder / "other.json", folder / "square.safetensors")
    assert code == 1
    assert out == "REJECTED: the certificate is about another model file\n"
