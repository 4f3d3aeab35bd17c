"""The watermark of Kirchenbauer et al.: texts of more green tokens than chance gives."""
