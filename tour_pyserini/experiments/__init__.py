"""Experiments: every condition on every collection, encoder, index and re-ranker of a YAML file.

from tour_pyserini.experiments.definition import find_experiment, read_experiment
from tour_pyserini.experiments.measuring import measure
from tour_pyserini.experiments.planning import Locations
from tour_pyserini.experiments.running import make_runs, steps

experiment = read_experiment(find_experiment("demo"))
locations = Locations(Path("runs/demo"), Path("indexes"))
chosen = experiment.setups()
make_runs(experiment, list(steps(experiment, chosen, locations)), locations)
results = measure(experiment, chosen, locations)
"""
