"""Plots and pages that need nothing else: SVG and HTML as text, without scripts."""
