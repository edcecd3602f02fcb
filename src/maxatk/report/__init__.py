"""Tables, figures and one offline HTML page."""
