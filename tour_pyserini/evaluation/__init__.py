"""Evaluation: measures of runs and of answers, paired tests, tables and pictures."""
