"""The program: settings -> site -> pools -> exports."""
