"""Measuring runs with ir-measures."""
