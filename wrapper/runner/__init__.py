"""Turn a sweep into trials and run each as one subprocess."""
