"""The Python language host, through which the engine runs Python programs. server.py explains when it is used."""
