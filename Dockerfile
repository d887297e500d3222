# A cluster of PocketMQ in one container: docs/install.md says how its addresses are mapped.

FROM python:3.12-slim AS build
WORKDIR /src
COPY . .
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheels .

FROM python:3.12-slim
LABEL org.opencontainers.image.title="PocketMQ" \
      org.opencontainers.image.licenses="Apache-2.0"
RUN useradd --uid 10001 --user-group --no-create-home --shell /usr/sbin/nologin pocketmq \
    && mkdir /data \
    && chown 10001:10001 /data
COPY --from=build /wheels /wheels
# With grpc, it serves RocketMQ 5's SDKs too.
RUN pip install --no-cache-dir "$(echo /wheels/*.whl)[grpc]" && rm -r /wheels
ENV PYTHONUNBUFFERED=1 \
    POCKETMQ_CLUSTER_DATA=/data \
    POCKETMQ_CLUSTER_HOST=0.0.0.0 \
    POCKETMQ_CLUSTER_CONTROL_HOST=0.0.0.0 \
    POCKETMQ_BROKER_BROKER_IP1=127.0.0.1
USER 10001:10001
VOLUME /data
EXPOSE 8081 9870 9876 10909 10911
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s --retries=3 \
    CMD ["pocketmq", "ready", "--data", "/data"]
ENTRYPOINT ["pocketmq", "up"]
