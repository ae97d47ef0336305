-- Dagster's own database and role, apart from the application's. As a role that may create both:
--   psql "$ADMIN_DATABASE_URL" -v password="'...'" -f deploy/database.sql
-- Run once; it changes nothing of the application's.
CREATE ROLE pramaan_dagster LOGIN NOSUPERUSER NOBYPASSRLS NOCREATEDB NOCREATEROLE
  -- Dagster pools nothing: daemon, webserver and every run open and close. Under the server's limit.
  CONNECTION LIMIT 80
  PASSWORD :password;
GRANT pramaan_dagster TO CURRENT_USER;
CREATE DATABASE pramaan_dagster OWNER pramaan_dagster;
REVOKE CONNECT, TEMPORARY ON DATABASE pramaan_dagster FROM PUBLIC;
