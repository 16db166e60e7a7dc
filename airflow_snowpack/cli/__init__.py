"""`airflow snowpack …`"""
