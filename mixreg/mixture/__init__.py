"""What is mixed: parameters, class probabilities, shared and absent terms."""
