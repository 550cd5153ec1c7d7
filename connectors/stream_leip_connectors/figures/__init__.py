"""Figures of class mixes over time, for a report that is written once and a page that lives."""
