"""Tables, figures and one offline HTML page."""

from maxatk.report.figures import figure1_svg
from maxatk.report.page import write_report
from maxatk.report.tables import Cell, Table, overview_table

__all__ = ["Cell", "Table", "figure1_svg", "overview_table", "write_report"]
