"""Experiments: every condition on every collection, encoder, index and re-ranker of a YAML file.

from tour_pyserini.experiments.definition import find_experiment, read_experiment
from tour_pyserini.experiments.measuring import measure, scorers_of
from tour_pyserini.experiments.planning import Workspace
from tour_pyserini.experiments.running import make_runs, steps

at = Workspace(read_experiment(find_experiment("demo")), Path("runs/demo"), Path("indexes"))
chosen = at.experiment.setups()
make_runs(at, steps(at, chosen), report=print)
results = measure(at, chosen, scorers_of(at, chosen))
"""
