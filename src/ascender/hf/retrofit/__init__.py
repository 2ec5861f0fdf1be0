"""The three rules added to a pretrained Hugging Face model."""
