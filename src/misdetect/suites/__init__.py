"""Studies together: checkup asks all that apply and makes one report, harden trains on what was found."""
