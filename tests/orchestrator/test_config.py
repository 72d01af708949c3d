"""What may be asked for, what comes of it, and the sentence when it may not."""

import shutil
from pathlib import Path

import pytest
import yaml

from agents.factory import TOOLS
from orchestrator.config.experiment import (
    CONF,
    ConfigError,
    Experiment,
    load_evaluation,
    load_experiment,
    load_tracking,
)
from orchestrator.plan import make_plan
from orchestrator.settings import LauncherKind, ProblemSource

PROBLEM = "problem=24"
TOOL_LABELS = ["tool_loop.tools=all", "tool_loop.tools=submit_kernel"]


@pytest.fixture
def conf(tmp_path: Path) -> Path:
    """A copy of conf/ that a test may add files to."""
    return Path(shutil.copytree(CONF, tmp_path / "conf"))


def labels(experiment: Experiment, axis: str) -> list[str]:
    return [option.label for grid in experiment.grids for option in getattr(grid, axis)]


def test_quickstart_is_what_its_file_says() -> None:
    experiment = load_experiment(["experiment=quickstart"])
    assert experiment.name == "quickstart"
    assert (experiment.launcher.kind, experiment.launcher.workers) == (LauncherKind.local, 2)
    assert labels(experiment, "problem") == [
        "level1/23_virtual_all_reduce_mean",
        "level1/24_row_softmax",
        "level2/47_virtual_all_gather_concat_linear",
    ]
    assert labels(experiment, "agent") == ["tool_loop", "baseline"]
    assert labels(experiment, "budget") == ["small", "standard"]
    assert labels(experiment, "model") == ["recorded"]
    assert experiment.grids[0].seed == [0, 1]
    budgets = [option.identity["budget"]["turns"] for option in experiment.grids[0].budget]
    assert budgets == [4, 15]


@pytest.mark.parametrize(
    ("override", "axis", "expected"),
    [
        ("budget=small,standard", "budget", ["small", "standard"]),
        ("budget=glob(s*,exclude=small)", "budget", ["standard"]),
        ("budget.turns=3,5", "budget", ["standard.turns=3", "standard.turns=5"]),
        ("budget.turns=choice(3,15)", "budget", ["standard.turns=3", "standard"]),
        ("budget.turns=range(1,4)", "budget", ["standard.turns=1", "standard.turns=2", "standard.turns=3"]),
        ("budget.cost_usd=0.5,null", "budget", ["standard.cost_usd=0.5", "standard"]),
        ("evaluation.shapes=fixed,jitter", "evaluation", ["cpu", "cpu.shapes=jitter"]),
        ("evaluation.timing.budget_s=2.5", "evaluation", ["cpu.budget_s=2.5"]),
        ("evaluation.timing.budget_s=1.50,2,2.0,2e0", "evaluation", ["cpu", "cpu.budget_s=2"]),
        ("agent.tools=[submit_kernel],[compile_kernel,submit_kernel]", "agent", None),
        ("agent.tools=all", "agent", ["tool_loop.tools=all"]),
        ("agent.tools=default,all,[submit_kernel]", "agent", ["tool_loop", *TOOL_LABELS]),
        ("agent.tools=default,[get_gpu_specs,compile_kernel,run_correctness,submit_kernel]", "agent", ["tool_loop"]),
        ("model=recorded,grok-4.3", "model", ["recorded", "grok-4.3"]),
        ("model.name=mine", "model", ["mine"]),
        ("problem=level1/24_row_softmax", "problem", ["level1/24_row_softmax"]),
        ("problem=47,24", "problem", ["level2/47_virtual_all_gather_concat_linear", "level1/24_row_softmax"]),
        (
            "problem=glob([level1/23*,*softmax])",
            "problem",
            ["level1/23_virtual_all_reduce_mean", "level1/24_row_softmax"],
        ),
        ("problem.select=[24]", "problem", ["level1/24_row_softmax"]),
    ],
)
def test_one_override_gives_an_axis(override: str, axis: str, expected: list[str] | None) -> None:
    overrides = [override] if axis == "problem" else [override, PROBLEM]
    found = labels(load_experiment(overrides), axis)
    if expected is None:
        assert len(set(found)) == 2
    else:
        assert found == expected


def test_a_set_of_tools_is_the_same_cell_as_its_list(conf: Path) -> None:
    (conf / "agent" / "everything.yaml").write_text("name: tool_loop\nkind: tool_loop\ntools: all\n")

    def uids(*overrides: str) -> list[str]:
        return list(make_plan(load_experiment([PROBLEM, *overrides], conf=conf)).cells)

    plain = uids()
    assert uids("agent.tools=default") == plain
    assert uids("agent.tools=[get_gpu_specs,compile_kernel,run_correctness,submit_kernel]") == plain
    assert uids("agent.tools=default,[get_gpu_specs,compile_kernel,run_correctness,submit_kernel]") == plain
    every = f"agent.tools=[{','.join(TOOLS)}]"
    assert uids("agent.tools=all") == uids(every) != plain
    # By its option the label has no key in it; what the cell is, is the same.
    [by_option] = uids("agent=everything")
    assert by_option.rsplit("-", 1)[1] == uids(every)[0].rsplit("-", 1)[1]
    assert uids("agent=everything", "agent.tools=all") == uids("agent=everything", every) == [by_option]


def test_group_options_and_their_keys_form_a_product() -> None:
    found = load_experiment([PROBLEM, "model=recorded,grok-4.3", "model.temperature=0.1,0.7"])
    expected = [f"{name}.temperature={t}" for name in ("recorded", "grok-4.3") for t in (0.1, 0.7)]
    assert labels(found, "model") == expected
    temperatures = [option.identity["model"]["temperature"] for option in found.grids[0].model]
    assert temperatures == [0.1, 0.7, 0.1, 0.7]


def test_an_axis_of_the_command_line_replaces_that_of_every_grid(conf: Path) -> None:
    grids = [{"budget": "small", "seed": "range(0,3)", "problem": 24}, {"budget.turns": [3, "5,7"], "problem": ["24"]}]
    text = yaml.safe_dump({"name": "two", "sweep": grids})
    (conf / "experiment" / "two.yaml").write_text(f"# @package _global_\n{text}")
    found = load_experiment(["experiment=two"], conf=conf)
    assert [labels(found, "budget")[0], [grid.seed for grid in found.grids]] == ["small", [[0, 1, 2], [0]]]
    assert labels(found, "budget")[1:] == ["standard.turns=3", "standard.turns=5", "standard.turns=7"]
    replaced = load_experiment(["experiment=two", "seed=8,9", "problem=23", "budget=standard"], conf=conf)
    assert [grid.seed for grid in replaced.grids] == [[8, 9], [8, 9]]
    assert labels(replaced, "problem") == ["level1/23_virtual_all_reduce_mean"] * 2
    assert labels(replaced, "budget")[0] == "standard"


def test_an_experiment_file_may_change_sections_of_every_option(conf: Path) -> None:
    text = "# @package _global_\nname: longer\nbudget:\n  warn_turns_remaining: 1\nlauncher:\n  workers: 5\n"
    (conf / "experiment" / "longer.yaml").write_text(text)
    found = load_experiment(["experiment=longer", PROBLEM, "budget=small,standard"], conf=conf)
    assert [option.identity["budget"]["warn_turns_remaining"] for option in found.grids[0].budget] == [1, 1]
    assert found.launcher.workers == 5
    assert load_experiment(["experiment=longer", "launcher.workers=7", PROBLEM], conf=conf).launcher.workers == 7


def test_a_kernelbench_checkout_is_a_library(tmp_path: Path) -> None:
    folder = tmp_path / "KernelBench" / "level1"
    folder.mkdir(parents=True)
    own = CONF.parent / "problems" / "level1" / "24_row_softmax.py"
    shutil.copy(own, folder / "7_copied.py")
    found = load_experiment(["problem.source=kernelbench", f"problem.path={tmp_path}", "agent=baseline"])
    assert labels(found, "problem") == ["level1/7_copied"]
    assert found.grids[0].problem[0].runtime == {"problem": {"source": "kernelbench", "path": str(tmp_path)}}
    by_option = load_experiment(["problem=kernelbench", f"problem.path={tmp_path}", "agent=baseline"])
    assert by_option.grids == found.grids


def test_what_has_one_value_for_all_cells() -> None:
    found = load_experiment([PROBLEM, "launcher=inline", "tracking=none", "name=mine", "model.base_url=http://a/v1"])
    assert (found.launcher.kind, found.tracking.enabled, found.name) == (LauncherKind.inline, False, "mine")
    assert found.grids[0].model[0].label == "recorded"
    assert found.grids[0].model[0].runtime["model"]["base_url"] == "http://a/v1"


def test_settings_without_a_sweep() -> None:
    evaluation, problems = load_evaluation(["evaluation.draws=2", "problem.source=kernelbench", "problem.path=/x"])
    assert (evaluation.draws, problems.source, problems.path) == (2, ProblemSource.kernelbench, "/x")
    by_option = load_evaluation(["problem=kernelbench", "problem.path=/x"])[1]
    assert (by_option.source, by_option.path) == (problems.source, problems.path)
    assert load_tracking(["tracking.uri=http://host:5000"]).uri == "http://host:5000"


def test_the_resolved_config_is_plain_yaml() -> None:
    overrides = [PROBLEM, "budget.turns=3,5", "seed=4"]
    found = yaml.safe_load(load_experiment(overrides).resolved())
    assert found["overrides"] == overrides
    assert [next(iter(option.values()))["budget"]["turns"] for option in found["grids"][0]["budget"]] == [3, 5]
    assert (found["grids"][0]["seed"], found["launcher"]["kind"]) == ([4], "local")


REFUSED = [
    ("modle=recorded", ["'modle'", "did you mean model?", "budget"]),
    ("hydra.run.dir=x", ["'hydra'", "valid: name"]),
    ("sweep=3", ["'sweep'"]),
    ("model=recordet", ["model has no option 'recordet'", "did you mean recorded?", "grok-4.3"]),
    ("budget=glob(x*)", ["budget has no option 'x*'", "small"]),
    ("budget=null", ["budget has no option", "small"]),
    ("experiment=quick", ["experiment has no option 'quick'", "quickstart"]),
    ("launcher=ray", ["launcher has no option 'ray'", "inline, local, slurm"]),
    ("launcher=inline,local", ["launcher", "cannot be swept"]),
    ("launcher.workers=1,2", ["launcher.workers", "cannot be swept"]),
    ("launcher.workers=0", ["launcher.workers cannot be 0", "at least 1"]),
    ("launcher.kind=ray", ["launcher.kind cannot be 'ray'", "one of inline, local, slurm"]),
    ("budget.turms=3", ["budget has no key 'turms'", "did you mean turns?"]),
    ("budget.turns=three", ["budget.turns cannot be 'three'", "a whole number"]),
    ("budget.turns=2.5", ["budget.turns cannot be 2.5", "a whole number"]),
    ("budget.turns=null", ["budget.turns cannot be None", "a whole number"]),
    ("budget.turns=0", ["budget.turns cannot be 0", "at least 1"]),
    ("budget.turns=glob(*)", ["budget.turns takes a whole number"]),
    ("budget.turns=${seed}", ["budget.turns is an interpolation"]),
    ("budget.turns.x=3", ["budget.turns holds a whole number"]),
    ("budget.cost_usd=much", ["budget.cost_usd cannot be 'much'", "a number or null"]),
    ("evaluation.timing=3", ["evaluation.timing is a section", "evaluation.timing.budget_s"]),
    ("evaluation.shapes=fixt", ["evaluation.shapes cannot be 'fixt'", "did you mean fixed?"]),
    ("evaluation.device=tpu", ["evaluation.device cannot be 'tpu'", "cpu"]),
    ("tracking.enabled=perhaps", ["tracking.enabled cannot be 'perhaps'", "true or false"]),
    ("agent.tools=submit_kernel", ["agent.tools cannot be 'submit_kernel'", "default, all, or a list"]),
    ("agent.tools=3", ["agent.tools cannot be 3", "default, all, or a list"]),
    ("agent.tools=[[all]]", ["agent.tools cannot be [['all']]", "default, all, or a list"]),
    ("agent.tools=glob(*)", ["agent.tools takes default, all, or a list"]),
    ("agent.tools.all=3", ["agent.tools holds default, all, or a list"]),
    ("agent.tools=[submit_kernl]", ["agent.tools", "did you mean submit_kernel?", "compile_kernel"]),
    ("agent.tools=[compile_kernel]", ["agent.tools must name submit_kernel"]),
    ("agent.tools=[all]", ["agent.tools cannot hold 'all'", "(valid: get_gpu_specs,"]),
    ("problem=25", ["no recording for level1/25", "24_row_softmax"]),
    ("agent.prompt=nosuch", ["nosuch", "default"]),
    ("model.kind=litellm", ["model.litellm_model=PROVIDER/MODEL"]),
    ("model.transcript=nowhere", ["model.transcript cannot be 'nowhere'"]),
    ("model.base_url=a,b", ["model.base_url changes no result"]),
    ("model.name=a/b", ["model.name cannot be 'a/b'"]),
    ("name=../up", ["name cannot be '../up'"]),
    ("name=code", ["name cannot be 'code'", "another name"]),
    ("name=null", ["name cannot be 'null'"]),
    ("seed=abc", ["seed cannot be 'abc'", "whole numbers"]),
    ("seed=-1", ["seed cannot be -1"]),
    ("seed=true", ["seed cannot be True"]),
    ("seed=range(0,2", ["cannot read 'seed=range(0,2'"]),
    ("seed=range(2,2)", ["has no values"]),
    ("seed=range(0,1000000000)", ["more than 1000000 values"]),
    ("seed=interval(0,1)", ["interval"]),
    ("seed", ["cannot read 'seed'", "key=value"]),
    ("+budget.turns=3", ["write it plainly"]),
    ("~budget", ["write it plainly"]),
    ("problem=onw", ["'onw'", "level1/24_row_softmax", "own"]),
    ("problem=level1/24_row_softmx", ["level1/24_row_softmx", "level1/24_row_softmax"]),
    ("problem=glob(level9/*)", ["level9/*"]),
    ("problem=kernelbench", ["problem.path=DIR"]),
    ("problem.source=huggingface", ["problem.source cannot be 'huggingface'", "own, kernelbench"]),
]


@pytest.mark.parametrize(("override", "words"), REFUSED, ids=[override for override, _ in REFUSED])
def test_what_there_is_not_is_refused_in_one_sentence(override: str, words: list[str]) -> None:
    with pytest.raises(ConfigError) as refusal:
        load_experiment([override] if override.startswith("problem") else [override, PROBLEM])
    sentence = str(refusal.value)
    assert "\n" not in sentence
    for word in words:
        assert word in sentence


def test_a_key_given_twice_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"seed is given twice; sweep it with seed=A,B"):
        load_experiment(["seed=1", "seed=2"])


def test_one_name_for_two_settings_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"both called 'same'; set model.name"):
        load_experiment([PROBLEM, "model=recorded,grok-4.3", "model.name=same"])


def test_evaluate_takes_no_axes() -> None:
    with pytest.raises(ConfigError, match=r"model has no meaning here"):
        load_evaluation(["model=recorded"])
    with pytest.raises(ConfigError, match=r"launcher has no meaning here"):
        load_evaluation(["launcher=inline"])
    with pytest.raises(ConfigError, match=r"evaluation.draws .* cannot be swept"):
        load_evaluation(["evaluation.draws=1,2"])


BROKEN_FILES = [
    ("budget/bad.yaml", "turms: 3", "budget=bad", ["budget.turms", "did you mean turns?"]),
    ("budget/bad.yaml", "turns: three", "budget=bad", ["budget.turns", "a whole number"]),
    ("budget/bad.yaml", "turns: [", "budget=bad", ["bad.yaml", "line 2"]),
    ("budget/bad.yaml", "name: ${agent.name}", "budget=bad", ["budget.name is an interpolation"]),
    (
        "budget/bad.yaml",
        "# @package _global_\nmodel:\n  max_tokens: 5",
        "budget=bad",
        ["budget=bad also changes model"],
    ),
    ("budget/bad.yaml", "defaults:\n  - nosuch", "budget=bad", ["budget/nosuch"]),
    ("experiment/bad.yaml", "# @package _global_\nbudgit:\n  turns: 3", "experiment=bad", ["budgit"]),
    ("experiment/bad.yaml", "# @package _global_\nsweep: 3", "experiment=bad", ["sweep must be a mapping"]),
    ("experiment/bad.yaml", "# @package _global_\nsweep: {budget: smal}", "experiment=bad", ["did you mean small?"]),
    ("experiment/bad.yaml", "# @package _global_\nsweep: {seed: []}", "experiment=bad", ["axis seed has no values"]),
    ("experiment/bad.yaml", "# @package _global_\nsweep: {launcher.workers: 2}", "experiment=bad", ["axis of sweep"]),
    ("experiment/bad.yaml", "# @package _global_\nsweep: {bugdet: small}", "experiment=bad", ["did you mean budget?"]),
]


@pytest.mark.parametrize(("path", "text", "override", "words"), BROKEN_FILES, ids=range(len(BROKEN_FILES)))
def test_a_broken_file_is_named_in_one_sentence(
    conf: Path, path: str, text: str, override: str, words: list[str]
) -> None:
    (conf / path).write_text(f"{text}\n")
    with pytest.raises(ConfigError) as refusal:
        load_experiment([override, PROBLEM], conf=conf)
    sentence = str(refusal.value)
    assert "\n" not in sentence
    for word in words:
        assert word in sentence


def test_long_values_stay_apart_in_labels() -> None:
    many = "get_gpu_specs,compile_kernel,run_correctness,submit_kernel"
    found = load_experiment([PROBLEM, f"agent.tools=[{many},compile_kernel],[{many},run_correctness]"])
    names = labels(found, "agent")
    assert len(set(names)) == 2
    assert all(len(name) < 60 for name in names)
