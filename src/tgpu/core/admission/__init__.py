"""Admission of jobs: caps, quotas, and lending within a cohort."""
