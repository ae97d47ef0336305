"""What the sweep, the healing sensor and an agent that works on its own do."""

from collections.abc import Callable, Iterator

from pramaan_pipelines_tests.model.rules import Model
from pramaan_pipelines_tests.model.state import (
    HEALING,
    AgentRun,
    At,
    Job,
    Run,
    State,
    Step,
    SweepUnderWay,
    Transition,
    changed_at,
    is_held,
)


def failed_where(
    agent_runs: tuple[AgentRun, ...], matches: Callable[[AgentRun], bool]
) -> tuple[AgentRun, ...]:
    """Return the agent runs with the running ones that match failed."""
    return tuple(
        run._replace(status="failed", covers=0) if run.status == "running" and matches(run) else run
        for run in agent_runs
    )


def sweep_steps(model: Model, state: State) -> Iterator[Transition]:
    """A job whose lease is over fails, with its agent run."""
    rules, job, sweep = model.rules, state.job, state.sweep
    if sweep is not None:
        yield from _sweep_goes_on(model, state, sweep)
        return
    if not rules.eb_18_sweep or job is None or job.status != "running" or not job.lease_over:
        return
    if rules.h6_sweep_repeats_the_lease:
        yield from _fail_job(model, state, job, Step("sweep", "fails", generation=job.generation))
        return
    step = Step("sweep", "looks", generation=job.generation, told="the lease is over")
    yield Transition(step, state._replace(sweep=SweepUnderWay("fail_job", job.generation)))


def _fail_job(model: Model, state: State, job: Job, step: Step) -> Iterator[Transition]:
    rules = model.rules
    counted = job.failed_tries + 1 if rules.h8_failure_counts_a_try else job.failed_tries
    swept = state._replace(
        job=job._replace(status="failed", lease_over=False, failed_tries=counted),
        failures=state.failures + 1,
        sweep=None,
    )
    if rules.h6_sweep_is_one_transaction and rules.h6_sweep_fails_no_other_run:
        failed = failed_where(state.agent_runs, lambda run: run.generation == job.generation)
        yield Transition(step, swept._replace(agent_runs=failed))
        return
    half = step._replace(told="the job; its agent run comes next")
    yield Transition(half, swept._replace(sweep=SweepUnderWay("fail_run", job.generation)))
    if state.faults < model.setting.faults:
        dies = step._replace(told="the job, and dies", fault=True)
        yield Transition(dies, swept._replace(faults=state.faults + 1), fair=False)


def _sweep_goes_on(model: Model, state: State, sweep: SweepUnderWay) -> Iterator[Transition]:
    job, aim = state.job, sweep.generation
    if sweep.does_next == "fail_job":
        if job is not None and is_held(job, aim):
            step = Step("sweep", "fails", generation=aim, told="whatever the lease says now")
            yield from _fail_job(model, state, job, step)
        else:
            step = Step("sweep", "fails", generation=aim, told="no row")
            yield Transition(step, state._replace(sweep=None))
        return
    step = Step("sweep", "fails the agent run", generation=aim)
    only_its_own = model.rules.h6_sweep_fails_no_other_run
    failed = failed_where(state.agent_runs, lambda run: run.generation == aim or not only_its_own)
    yield Transition(step, state._replace(agent_runs=failed, sweep=None))


def is_needed(model: Model, job: Job) -> bool:
    """Whether the row itself asks for healing."""
    return job.status != "running" and (
        job.rebuild_needed or (job.status == "failed" and job.failed_tries <= model.setting.bound)
    )


def healing_steps(model: Model, state: State) -> Iterator[Transition]:
    """The sensor reads the job table and yields a run."""
    job, rules = state.job, model.rules
    if not rules.healing or job is None or not (state.consent and state.matter):
        return
    if len(state.runs) >= model.setting.at_once or not is_needed(model, job):
        return
    keys = state.used_keys
    if not rules.h12_healing_key_is_fresh:
        key = (HEALING, job.generation)
        if key in keys:
            return
        keys |= {key}
    first: At = "coherence" if model.setting.vanishes else "consent"
    run = Run(HEALING, 0, first if rules.h2_healing_skips_dedupe else "dedupe", 0)
    yield Transition(
        Step("healing", "yields a run", generation=job.generation, run=run),
        state._replace(runs=tuple(sorted((*state.runs, run))), used_keys=keys),
    )


def agent_steps(model: Model, state: State) -> Iterator[Transition]:
    """An agent that answered "accepted" gives signs of life, completes or dies."""
    for index in state.agents:
        yield from _one_agent(model, state, index)


def _one_agent(model: Model, state: State, index: int) -> Iterator[Transition]:
    job, agent_run = state.job, state.agent_runs[index]
    generation = agent_run.generation
    rest = tuple(other for other in state.agents if other != index)
    step = Step("agent", "completes", index, generation=generation)
    matches = is_held(job, generation)
    if not model.rules.h10_completion_holds_its_own_generation:
        matches = job is not None and job.status == "running"
    if job is not None and matches:
        if job.lease_over:
            yield Transition(
                step._replace(does="gives a sign of life"),
                state._replace(job=job._replace(lease_over=False)),
            )
        yield Transition(step, finished(state, job, index)._replace(agents=rest))
    else:
        ended = state._replace(agents=rest)
        if not model.rules.h9_end_only_with_the_job:
            ended = ended._replace(agent_runs=_succeeded(state, index))
        yield Transition(step._replace(told="no row"), ended)
    if state.faults < model.setting.faults:
        yield Transition(
            step._replace(does="dies", fault=True),
            state._replace(agents=rest, faults=state.faults + 1),
            fair=False,
        )
        if job is not None and matches:
            reported = state._replace(agents=rest, faults=state.faults + 1)
            yield from _report_failure(reported, job, step)


def _report_failure(state: State, job: Job, step: Step) -> Iterator[Transition]:
    yield Transition(
        step._replace(does="reports that it failed", fault=True),
        state._replace(
            job=job._replace(status="failed", lease_over=False, failed_tries=job.failed_tries + 1),
            agent_runs=failed_where(
                state.agent_runs, lambda run: run.generation == step.generation
            ),
            failures=state.failures + 1,
        ),
        fair=False,
    )


def finished(state: State, job: Job, index: int) -> State:
    """Return the state with the job given back and the agent run succeeded."""
    return state._replace(
        job=job._replace(status="idle", lease_over=False, failed_tries=0),
        agent_runs=_succeeded(state, index),
        built=state.built | state.agent_runs[index].covers,
        failures=0,
    )


def _succeeded(state: State, index: int) -> tuple[AgentRun, ...]:
    ended = state.agent_runs[index]._replace(status="succeeded", covers=0)
    return changed_at(state.agent_runs, index, ended)
