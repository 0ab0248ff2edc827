"""`quadlens history`: what every snapshot of a run says."""

from pathlib import Path

from quadlens.base.errors import BadConfig, BadFile
from quadlens.cli.options import PathArgument
from quadlens.cli.output import Output


def command(
    out: Output,
    run: PathArgument,
    output: Path | None = None,
    activation: str | None = None,
    no_proofs: bool = False,
) -> None:
    """Show what every snapshot of a training run says.

    A row has losses, waves, clusters, lens, quadrature error, margin and proof.

    Snapshots come from `quadlens train --snapshots N`; other projects' checkpoints are read as by
    `quadlens import`.

    Options:
        run (MODEL|DIR): A model with snapshots beside it, or a directory of checkpoints.
        output (--output -o FILE): Also write the rows (.parquet, .csv), or a run to play (.run).
        activation (NAME): Of checkpoints that do not say it.
        no_proofs: Leave out proofs, which take most of the time.
    """
    import io

    from quadlens.base.atomic import check_writable, write_atomic
    from quadlens.training.over_time import NoSnapshots, history
    from quadlens.training.played_run import played_run

    if output is not None:
        if output.suffix not in (".parquet", ".csv", ".run"):
            raise BadConfig(
                f"-o {output}; expected a name that ends in .parquet or .csv, or in .run"
            )
        check_writable(output)
    try:
        with out.step_line() as step:
            run_history = history(
                run,
                activation=activation,
                proofs=not no_proofs,
                progress=lambda done, total: step(f"snapshot {done + 1} of {total}"),
            )
    except NoSnapshots as error:
        # Never onto the model that is there: to be told how to keep snapshots is not to be told to
        # replace it.
        command = "quadlens train" if error.command is None else error.command.rpartition(" -o ")[0]
        raise BadFile(f"{error}, with: {command} --snapshots 60 -o again.safetensors") from None
    if output is not None:
        content, frame = io.BytesIO(), run_history.frame()
        if output.suffix == ".run":
            content.write(played_run(run, run_history).to_bytes())
        else:
            frame.write_parquet(content) if output.suffix == ".parquet" else frame.write_csv(
                content
            )
        write_atomic(output, content.getvalue())
    out.emit(run_history.to_dict(), run_history.render)
