"""Building blocks of every report: tables, figures, colours, translated strings, pages."""
